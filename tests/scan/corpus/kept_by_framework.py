"""A framework's own create_task keeps its tasks."""
import asyncio


class Hub:
    def __init__(self):
        self.running = {}

    def create_task(self, coroutine):
        task = asyncio.create_task(coroutine)
        self.running[task.get_name()] = task

    async def wait(self):
        await asyncio.wait(self.running.values())


async def send():
    pass


async def main(hub: Hub):
    hub.create_task(send())
