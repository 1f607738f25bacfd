"""A list of tasks that is dropped."""
import asyncio

seen = []


async def send(number):
    seen.append(number)


async def main():
    [asyncio.create_task(send(each)) for each in range(3)]  # expect: dangling-task
    await asyncio.sleep(0.01)


def check():
    seen.clear()
    asyncio.run(main())
    assert seen == [0, 1, 2]
