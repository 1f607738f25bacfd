"""Imported under another name."""
import asyncio
from asyncio import ensure_future as go


async def send():
    pass


async def main():
    go(send())  # expect: dangling-task


def check():
    asyncio.run(main())
