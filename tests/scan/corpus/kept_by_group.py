"""A task group keeps and awaits its tasks."""
import asyncio


async def send():
    pass


async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(send())
    async with asyncio.TaskGroup() as loop:
        loop.create_task(send())
