"""Called and not awaited."""


async def send():
    pass


async def main():
    send()  # expect: coroutine-never-awaited
