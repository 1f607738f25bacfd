"""Only a debug line says so."""
import logging

import httpx

logger = logging.getLogger(__name__)


async def notify(event):
    async with httpx.AsyncClient() as client:
        try:
            response = await client.post("https://example.org/hook", json=event)
            response.raise_for_status()
        except httpx.HTTPError:  # expect: network-error-swallowed
            logger.debug("could not notify", exc_info=True)
