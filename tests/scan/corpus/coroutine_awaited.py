"""Awaited, returned, handed on: all is well."""
import asyncio
from contextlib import asynccontextmanager


async def send():
    pass


@asynccontextmanager
async def connection():
    yield 1


async def numbers():
    yield 1


def later():
    return send()


async def main():
    await send()
    work = send()
    await asyncio.wait_for(work, 1)
    await later()
    numbers()
    connection()
