"""Errors are collected under a name that nobody reads."""
import asyncio


async def send(number):
    raise ValueError(number)


async def main():
    _results = await asyncio.gather(*(send(each) for each in range(3)), return_exceptions=True)  # expect: gather-results-unread


def check():
    asyncio.run(main())
