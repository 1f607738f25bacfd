"""Where the task is dropped."""
import asyncio

from . import start as begin


async def send():
    pass


async def main():
    begin(send())  # expect: dangling-task


def check():
    asyncio.run(main())
