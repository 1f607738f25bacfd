"""An attribute that nobody reads."""
import asyncio


class Service:
    def start(self):
        self._pump = asyncio.create_task(self.run())  # expect: task-never-awaited

    async def run(self):
        pass
