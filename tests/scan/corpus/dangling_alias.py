"""The maker of tasks has another name in this module."""
import asyncio

spawn = asyncio.create_task
seen = []


async def send(number):
    seen.append(number)


async def main():
    spawn(send(1))  # expect: dangling-task
    await asyncio.sleep(0.01)


def check():
    seen.clear()
    asyncio.run(main())
    assert seen == [1]
