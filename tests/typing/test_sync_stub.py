"""`sync.pyi` says what `sf.sync` does: every awaited verb of the table, as a plain call."""

from __future__ import annotations

import inspect
from functools import reduce

import pytest

from standfast.typed.sync import Sync
from tests.typing import sync_stub

NAMES = [
    ".".join(filter(None, (owner, name)))
    for owner, names in sync_stub.verbs().items()
    if owner not in sync_stub.OBJECTS
    for name in names
]


def test_the_stub_is_the_one_that_the_table_gives():
    assert sync_stub.STUB.read_text(encoding="utf-8") == sync_stub.stub(), "run python -m tests.typing.sync_stub"


@pytest.mark.parametrize("name", NAMES)
def test_every_verb_of_the_table_is_a_plain_call(name):
    verb = reduce(getattr, name.split("."), Sync(sync_stub.standfast()))
    assert callable(verb)
    assert not inspect.iscoroutinefunction(verb)
    assert not inspect.isasyncgenfunction(verb)
