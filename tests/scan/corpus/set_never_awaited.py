"""The recipe of the manual: kept from the garbage collector, awaited by nobody."""
import asyncio

_tasks = set()


async def send():
    pass


async def main():
    task = asyncio.create_task(send())  # expect: task-never-awaited
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
