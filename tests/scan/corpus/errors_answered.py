"""Every await stands in a try that catches everything, or one call further in."""
import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor


class Server:
    def __init__(self, loop, store):
        self.loop = loop
        self.store = store
        self.executor = ThreadPoolExecutor()

    def later(self):
        asyncio.run_coroutine_threadsafe(self.handle(), self.loop)
        self.executor.submit(self.deliver, 1)

    async def handle(self):
        if not self.store:
            return
        try:
            answer = await self.store.read()
        except Exception:
            logging.exception("failed")
            answer = None
        print(answer)

    def deliver(self, number):
        """Hand on."""
        return self.deliver_safely(number)

    def deliver_safely(self, number):
        try:
            self.store.write(number)
        except Exception:
            logging.exception("failed")


def log_errors(function):
    return function


@log_errors
async def _set_up(toolset):
    await toolset.setup()


async def _put(queue, number):
    await queue.put(number)


async def start(toolsets, queue):
    await asyncio.gather(*(_set_up(each) for each in toolsets), return_exceptions=True)
    asyncio.run_coroutine_threadsafe(_put(queue, 1), asyncio.get_running_loop())
