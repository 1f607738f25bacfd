"""A timer calls an async function and drops the coroutine."""
import threading


async def send():
    pass


def main():
    threading.Timer(5, send).start()  # expect: async-callback
