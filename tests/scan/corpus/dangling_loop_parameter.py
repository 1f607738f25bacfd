"""The loop is an argument, known by its annotation only."""
import asyncio


async def send():
    pass


def start(where: asyncio.AbstractEventLoop):
    where.create_task(send())  # expect: dangling-task


def check():
    loop = asyncio.new_event_loop()
    start(loop)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
