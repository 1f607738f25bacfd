"""Where the task is dropped."""
from . import start as begin


async def send():
    pass


async def main():
    begin(send())  # expect: dangling-task
