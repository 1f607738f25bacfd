"""What a command that answers and ends writes to its log."""

import logging
import sys
from collections.abc import Iterator

import pytest

from standfast.cli import logs

AUDIT = logging.getLogger("standfast.audit")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = AUDIT.level
    yield
    AUDIT.setLevel(before)


@pytest.mark.parametrize(
    ("style", "terminal", "told"),
    [("auto", True, False), ("auto", False, False), ("json", False, True), ("text", True, True)],
)
def test_a_command_writes_the_heads_of_the_audit_chain_only_where_somebody_asked(monkeypatch, style, terminal, told):
    monkeypatch.setattr(logging.root, "handlers", [])  # those of pytest are added once the test begins
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    logs.start_quietly(style)
    assert AUDIT.isEnabledFor(logging.INFO) == told
    assert AUDIT.isEnabledFor(logging.WARNING)
    assert logging.getLogger("standfast.worker").isEnabledFor(logging.INFO)


def test_an_application_that_has_set_up_logging_keeps_what_it_set(monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [logging.NullHandler()])
    logs.start_quietly("auto")
    assert AUDIT.isEnabledFor(logging.INFO)
