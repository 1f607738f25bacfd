"""A partial of the maker of tasks."""
import asyncio
from functools import partial

spawn = partial(asyncio.create_task, name="mail")


async def send():
    pass


async def main():
    spawn(send())  # expect: dangling-task


def check():
    asyncio.run(main())
