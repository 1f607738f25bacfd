"""The event loop calls create_task, and throws the task away."""
import asyncio


async def send(number):
    print(number)


def from_thread(loop):
    loop.call_soon_threadsafe(asyncio.create_task, send(1))  # expect: dangling-task
    loop.call_soon_threadsafe(loop.create_task, send(1))  # expect: dangling-task
