"""A request that is never sent."""
import httpx


async def main():
    async with httpx.AsyncClient() as client:
        client.post("https://example.org/orders")  # expect: coroutine-never-awaited
