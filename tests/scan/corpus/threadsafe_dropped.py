"""So is that of a coroutine that another thread hands over."""
import asyncio


async def send(number):
    raise ValueError(number)


def main(loop):
    asyncio.run_coroutine_threadsafe(send(1), loop)  # expect: future-dropped
