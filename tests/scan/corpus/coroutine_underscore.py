"""Assigned to a name that says it is not wanted."""


async def send():
    pass


async def main():
    _ = send()  # expect: coroutine-never-awaited
