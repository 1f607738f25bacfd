"""The maker of tasks is a lambda."""
import asyncio

spawn = lambda work: asyncio.create_task(work)


async def send():
    pass


async def main():
    spawn(send())  # expect: dangling-task


def check():
    asyncio.run(main())
