"""A function keeps what it is given, and nobody awaits it."""
import asyncio

_kept = set()


def keep(task):
    _kept.add(task)
    task.add_done_callback(_kept.discard)


async def send():
    pass


async def main():
    keep(asyncio.create_task(send()))  # expect: task-never-awaited
