"""Started by `and`, and dropped."""
import asyncio


async def send():
    pass


async def main(urgent):
    urgent and asyncio.create_task(send())  # expect: dangling-task


def check():
    asyncio.run(main(True))
