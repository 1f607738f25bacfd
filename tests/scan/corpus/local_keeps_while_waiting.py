"""A local variable keeps the task while the function waits: nothing awaits it, but it is not collected."""
import asyncio


class Lifespan:
    def __init__(self):
        self.started = asyncio.Event()

    async def main(self):
        self.started.set()

    async def startup(self):
        task = asyncio.create_task(self.main())  # expect: task-never-awaited
        await self.started.wait()

    def __del__(self):
        asyncio.get_running_loop().create_task(self.main())
