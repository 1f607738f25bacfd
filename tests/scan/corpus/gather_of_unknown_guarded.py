"""Each platform logs its own errors; which class it has cannot be seen here, and there is one of this method's name."""
import asyncio
import contextlib
import logging


class Platform:
    async def set_up_logged(self, scanner):
        assert scanner
        with contextlib.nullcontext():
            try:
                await scanner.start()
            except Exception:
                logging.exception("not set up")


async def set_up(platforms, scanner):
    setups = [asyncio.create_task(each.set_up_logged(scanner)) for each in platforms]
    if setups:
        await asyncio.wait(setups)
