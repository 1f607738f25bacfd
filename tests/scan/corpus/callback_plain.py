"""Plain functions are what callbacks are for; others await what they are given."""
import asyncio
import threading


def send():
    pass


async def asend():
    pass


class Jobs:
    def call_later(self, seconds, function):
        return asyncio.create_task(function())


async def main(jobs: Jobs):
    threading.Timer(5, send).start()
    asyncio.get_running_loop().call_later(5, send)
    await jobs.call_later(5, asend)
