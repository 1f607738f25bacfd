"""A connection that does not come up has sent nothing: a knock at a door loses no work."""
import asyncio


async def knock(address, port):
    writer = None
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(address, port), timeout=1)
    except TimeoutError:
        pass
    finally:
        if writer:
            writer.close()
