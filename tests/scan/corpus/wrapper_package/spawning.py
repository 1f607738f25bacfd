"""Where it is defined."""
import asyncio


def start(coroutine):
    return asyncio.get_running_loop().create_task(coroutine)
