"""Imported under another name."""
from asyncio import ensure_future as go


async def send():
    pass


async def main():
    go(send())  # expect: dangling-task
