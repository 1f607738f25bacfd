"""Kept, watched, or safe by itself."""
import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pool


def send(number):
    raise ValueError(number)


def careful(number):
    try:
        send(number)
    except Exception:
        logging.exception("failed")


class Form:
    def submit(self, data):
        return data


def main(form: Form):
    with ThreadPoolExecutor() as pool:
        print(pool.submit(send, 1).result())
        pool.submit(careful, 1)
        future = pool.submit(send, 2)
        future.add_done_callback(print)
    form.submit({})
    Pool(2).apply_async(send, (1,), error_callback=print)


def wake(loop, event: asyncio.Event):
    asyncio.run_coroutine_threadsafe(event.wait(), loop)
