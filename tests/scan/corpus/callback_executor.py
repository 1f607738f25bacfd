"""A thread that is given an async function runs nothing of it."""
from concurrent.futures import ThreadPoolExecutor


async def send():
    pass


def main():
    with ThreadPoolExecutor() as pool:
        future = pool.submit(send)  # expect: async-callback
        print(future.result())
