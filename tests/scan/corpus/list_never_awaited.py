"""A list of tasks that nobody reads."""
import asyncio


async def send(number):
    pass


async def main():
    tasks = []
    for number in range(3):
        tasks.append(asyncio.create_task(send(number)))  # expect: task-never-awaited
    print(len(tasks))
