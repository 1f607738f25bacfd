"""Errors are collected and thrown away."""
import asyncio


async def send(number):
    raise ValueError(number)


async def main():
    await asyncio.gather(send(1), send(2), return_exceptions=True)  # expect: gather-results-unread


def check():
    assert asyncio.run(main()) is None
