"""So does the event loop."""
import asyncio


async def send(number):
    pass


async def main():
    loop = asyncio.get_running_loop()
    loop.call_later(5, send, 1)  # expect: async-callback
