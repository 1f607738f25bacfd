"""The wrapper keeps the task itself, and stop() cancels it."""
import asyncio


class Service:
    def __init__(self):
        self.tasks = set()

    def start(self, coroutine):
        task = asyncio.create_task(coroutine)
        self.tasks.add(task)
        return task

    async def send(self):
        self.start(self.send())

    async def stop(self):
        for task in self.tasks:
            task.cancel()
