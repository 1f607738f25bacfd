"""So is that of run_in_executor."""
import asyncio


def send(number):
    raise ValueError(number)


async def main():
    asyncio.get_running_loop().run_in_executor(None, send, 1)  # expect: future-dropped


def check():
    asyncio.run(main())
