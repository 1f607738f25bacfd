"""The tasks that are done are counted, and never asked for their errors."""
import asyncio


async def send(number):
    if number == 1:
        raise ValueError(number)


async def main(numbers):
    tasks = [asyncio.create_task(send(each)) for each in numbers]
    done, pending = await asyncio.wait(tasks)  # expect: gather-results-unread
    print(len(done), len(pending))
