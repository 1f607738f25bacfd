"""A wrapper that starts a task, or nothing."""
import asyncio

seen = []


def start(coroutine, wanted):
    if not wanted:
        coroutine.close()
        return None
    return asyncio.create_task(coroutine)


async def send(number):
    seen.append(number)


async def main():
    start(send(1), True)  # expect: dangling-task
    start(send(2), False)  # expect: dangling-task
    await asyncio.sleep(0.01)


def check():
    seen.clear()
    asyncio.run(main())
    assert seen == [1]
