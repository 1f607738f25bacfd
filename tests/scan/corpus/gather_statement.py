"""Gathered and not awaited."""
import asyncio

seen = []


async def send(number):
    seen.append(number)


async def main():
    asyncio.gather(send(1), send(2))  # expect: gather-never-awaited
    await asyncio.sleep(0.01)


def check():
    seen.clear()
    asyncio.run(main())
    assert seen == [1, 2]
