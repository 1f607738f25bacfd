"""An attribute that stop() cancels."""
import asyncio


class Service:
    def start(self):
        self._task = asyncio.create_task(self.run())

    async def run(self):
        pass

    def stop(self):
        self._task.cancel()
