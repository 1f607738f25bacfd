"""The wrapper is awaited; the task that it returns is not kept."""
import asyncio

seen = []


async def start(coroutine):
    return asyncio.create_task(coroutine)


async def send():
    seen.append(1)


async def main():
    await start(send())  # expect: dangling-task
    await asyncio.sleep(0.01)


def check():
    seen.clear()
    asyncio.run(main())
    assert seen == [1]
