"""So is that of a coroutine that another thread hands over."""
import asyncio


async def send(number):
    raise ValueError(number)


def main(loop):
    asyncio.run_coroutine_threadsafe(send(1), loop)  # expect: future-dropped


def check():
    loop = asyncio.new_event_loop()
    main(loop)
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
