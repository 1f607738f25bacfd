"""A shield keeps nothing either."""
import asyncio


async def send():
    pass


async def main():
    asyncio.shield(asyncio.create_task(send()))  # expect: dangling-task


def check():
    asyncio.run(main())
