"""Where a store on PostgreSQL is, as people are told it."""

from __future__ import annotations

import pytest

from standfast.store.postgres.address import Address


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hunter2@db/app?schema=jobs",
        "postgresql://ann@db/app?password=hunter2&schema=jobs",
        "postgresql://ann@db/app?sslmode=require&sslpassword=hunter2&schema=jobs",
    ],
)
def test_a_password_is_never_told(url):
    told = str(Address.read(url))
    assert "hunter2" not in told
    assert told.startswith("postgresql://ann@db/app")
    assert told.endswith("(schema jobs)")
