"""Remove a store from its server: meant for throw-away stores."""

from __future__ import annotations

from standfast.store.postgres.address import Address
from standfast.store.postgres.connection import connect


def drop(url: str) -> None:
    """Drop the schema that the URL names, with everything in it."""
    address = Address.read(url)
    with connect(address) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {address.schema} CASCADE")
