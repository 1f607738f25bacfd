"""Kept, and awaited before the end."""
import asyncio

tasks = set()


async def send():
    pass


async def main():
    task = asyncio.create_task(send())
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
