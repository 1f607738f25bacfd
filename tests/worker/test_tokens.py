"""Tokens in the store: which of them count, and whose names are free."""

from __future__ import annotations

import pytest

from standfast import ConfigurationError
from standfast.testing.kit import InMemory


async def test_one_that_has_expired_is_not_listed_and_gives_its_name_back(sf: InMemory) -> None:
    first = await sf.tokens.create("ci", person="ann", role="viewer", expires=60)
    await sf.tokens.create("other", person="bob", role="viewer", expires=600)
    with pytest.raises(ConfigurationError, match="there is a token"):
        await sf.tokens.create("ci", person="ann", role="viewer")
    sf.clock.advance(61)
    assert [each["name"] for each in await sf.tokens.list()] == ["other"]
    second = await sf.tokens.create("ci", person="ann", role="producer")
    assert await sf.tokens.grant(first["token"]) is None
    grant = await sf.tokens.grant(second["token"])
    assert grant is not None
    assert grant.role == "producer"
