"""To wait for an event or a place in a queue does not fail."""
import asyncio


class Operator:
    def __init__(self, insights, queue):
        self.insights = insights
        self.queue = queue

    async def ready(self):
        await asyncio.wait({
            asyncio.create_task(self.insights.namespaces.wait()),
            asyncio.create_task(self.insights.resources.wait()),
        })

    def put(self, message, loop):
        asyncio.run_coroutine_threadsafe(self.queue.put(message), loop)
