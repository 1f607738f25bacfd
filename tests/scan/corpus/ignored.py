"""Answered for, at the end of the line and above it."""
import asyncio


async def send():
    pass


async def main():
    asyncio.create_task(send())  # standfast: ignore[dangling-task] the caller restarts it every minute
    # standfast: ignore[dangling-task] likewise
    asyncio.create_task(send())
