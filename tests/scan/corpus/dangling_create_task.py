"""A task that nobody keeps."""
import asyncio

seen = []


async def send(number):
    await asyncio.sleep(0)
    seen.append(number)


async def main():
    asyncio.create_task(send(1))  # expect: dangling-task
    await asyncio.sleep(0.01)


def check():
    seen.clear()
    asyncio.run(main())
    assert seen == [1]
