"""What was cancelled has nothing to say."""
import asyncio


class Service:
    def __init__(self):
        self.tasks = []

    async def stop(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def leave(connections):
    try:
        print("work")
    finally:
        await asyncio.gather(*(each.aclose() for each in connections), return_exceptions=True)
