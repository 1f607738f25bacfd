"""Read, one by one or all."""
import asyncio


async def send(number):
    raise ValueError(number)


async def main():
    results = await asyncio.gather(send(1), return_exceptions=True)
    print([each for each in results if isinstance(each, Exception)])
    tasks = [asyncio.create_task(send(each)) for each in range(3)]
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        print(task.exception())
    await asyncio.gather(send(1), send(2))
