"""How many results there are says nothing about the errors among them."""
import asyncio
import logging

log = logging.getLogger(__name__)


async def send(number):
    if number == 1:
        raise ValueError(number)


async def main(numbers):
    results = await asyncio.gather(*(send(each) for each in numbers), return_exceptions=True)  # expect: gather-results-unread
    log.info("sent %d", len(results))


def check():
    asyncio.run(main([1, 2]))
