"""A function of the module returns the task, and its caller drops it."""
import asyncio

seen = []


def start(coroutine):
    task = asyncio.create_task(coroutine)
    task.set_name("started")
    return task


async def send():
    seen.append("sent")


async def main():
    start(send())  # expect: dangling-task
    await asyncio.sleep(0.01)


def check():
    seen.clear()
    asyncio.run(main())
    assert seen == ["sent"]
