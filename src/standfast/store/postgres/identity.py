"""What identifies a store: two connections with the same identity lead to the same tables."""

from __future__ import annotations

from standfast.store.postgres.address import Address

SERVER = "(SELECT system_identifier::text FROM pg_control_system())"
DATABASE = "(SELECT oid::text FROM pg_database WHERE datname = current_database())"


def identity_sql(address: Address) -> str:
    """Return SQL for the identity. A server restored from a dump, another database or schema has a different one."""
    return f"{SERVER} || ' ' || {DATABASE} || ' ' || coalesce(to_regclass('{address.schema}.job')::oid::text, 'none')"
