"""asyncio.wait raises nothing."""
import asyncio


async def send(number):
    raise ValueError(number)


async def main():
    await asyncio.wait([asyncio.create_task(send(each)) for each in range(3)])  # expect: gather-results-unread
