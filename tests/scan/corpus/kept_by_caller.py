"""Every caller of the wrapper keeps the task."""
import asyncio


def start(coroutine):
    return asyncio.create_task(coroutine)


async def send():
    pass


async def main():
    task = start(send())
    await task
    await start(send())
