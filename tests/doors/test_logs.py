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
    ("style", "in_file", "terminal", "told"),
    [
        ("auto", True, False, False),
        ("auto", False, True, False),
        ("auto", False, False, True),  # a program's log is the only place that has them
        ("json", True, False, True),
        ("text", True, True, True),
    ],
)
def test_heads_of_the_audit_chain_are_told_where_somebody_asked_or_nothing_else_has_them(
    monkeypatch, style, in_file, terminal, told
):
    monkeypatch.setattr(logging.root, "handlers", [])  # those of pytest are added once the test begins
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    logs.start_quietly(style, heads_in_file=in_file)
    assert AUDIT.isEnabledFor(logging.INFO) == told
    assert AUDIT.isEnabledFor(logging.WARNING)
    assert logging.getLogger("standfast.worker").isEnabledFor(logging.INFO)


def test_an_application_that_has_set_up_logging_keeps_what_it_set(monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [logging.NullHandler()])
    logs.start_quietly("auto", heads_in_file=True)
    assert AUDIT.isEnabledFor(logging.INFO)
