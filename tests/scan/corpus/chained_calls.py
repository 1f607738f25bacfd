"""What gives the loop or the executor is a call itself, and begins where the whole chain begins."""
import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache

seen = []


def send(number):
    seen.append(number)


async def post(number):
    seen.append(number)


@cache
def get_pool():
    return ThreadPoolExecutor()


class Mailer:
    def __init__(self):
        self._pool = ThreadPoolExecutor()

    def pool(self):
        return self._pool

    def notify(self):
        self.pool().submit(send, 1)  # expect: future-dropped
        self._pool.shutdown()


async def main():
    asyncio.get_running_loop().run_in_executor(None, send, 2)  # expect: future-dropped
    asyncio.get_event_loop().create_task(post(3))  # expect: dangling-task
    (
        asyncio.get_running_loop()  # expect: dangling-task
        .create_task(post(4))
    )
    await asyncio.sleep(0.05)


def start():
    get_pool().submit(send, 5)  # expect: future-dropped
    ThreadPoolExecutor().submit(send, 6)  # expect: future-dropped
    get_pool().shutdown()


def check():
    seen.clear()
    get_pool.cache_clear()
    Mailer().notify()
    asyncio.run(main())
    start()
    assert sorted(seen) == [1, 2, 3, 4, 5, 6]
