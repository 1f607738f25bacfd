"""A callback does not keep a task."""
import asyncio


async def send():
    pass


async def main():
    task = asyncio.create_task(send())  # expect: dangling-task
    task.add_done_callback(print)


def check():
    asyncio.run(main())
