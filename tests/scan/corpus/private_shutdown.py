"""Who only waits for things to shut down, by a private method too, need not read what became of that."""
import asyncio


class Palette:
    def __init__(self, providers):
        self.providers = providers

    async def leave(self):
        await asyncio.wait([asyncio.create_task(each._shutdown()) for each in self.providers])
