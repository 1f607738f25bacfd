"""The same with a block."""
import logging

import aiohttp

logger = logging.getLogger(__name__)


async def pay(order):
    async with aiohttp.ClientSession() as session:
        async with session.post("https://example.org/pay", json=order) as response:  # expect: status-not-checked
            logger.info(f"paid: {response.status}")
