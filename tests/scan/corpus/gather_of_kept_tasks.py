"""Whoever waits for tasks that others keep need not read their errors."""
import asyncio

_pending = {}


class Client:
    def __init__(self):
        self.inflight = set()
        self.futures = []

    async def drain(self):
        waiting = [each for each in self.inflight if not each.done()]
        await asyncio.gather(*waiting, return_exceptions=True)

    async def flush(self):
        await asyncio.gather(*[asyncio.wrap_future(each) for each in self.futures], return_exceptions=True)

    async def join(self):
        await asyncio.gather(*list(self.inflight), return_exceptions=True)


async def drain(owner):
    mine = [task for task, its_owner in _pending.items() if its_owner is owner]
    if mine:
        await asyncio.gather(*mine, return_exceptions=True)
