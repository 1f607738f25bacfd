"""A coroutine of the standard library, under another name."""
from asyncio import sleep as pause


async def main():
    pause(1)  # expect: coroutine-never-awaited
