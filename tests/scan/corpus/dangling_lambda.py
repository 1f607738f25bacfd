"""A callback starts a task and nobody keeps what it returns."""
import asyncio

seen = []


async def send():
    seen.append(1)


async def main():
    asyncio.get_running_loop().call_later(0, lambda: asyncio.create_task(send()))  # expect: dangling-task
    await asyncio.sleep(0.01)


def check():
    seen.clear()
    asyncio.run(main())
    assert seen == [1]
