"""Scripts for tracebacks: one is written with its failure, and replaced or deleted by the next failed attempt."""

from __future__ import annotations

from collections.abc import Sequence

from standfast.lifecycle import State, Transition
from standfast.store.steps import Round, Script, text
from standfast.wings.tracebacks.words import Traceback


def write_moves(_round: Round, moved: Sequence[Transition]) -> Script[None]:
    """Store the tracebacks of attempts that failed; an attempt that failed without an exception deletes the old one."""
    failed = [each for each in moved if each.source == State.RUNNING and each.attempt_failure is not None]
    if not failed:
        return
    rows = [(each.n, each.attempt, raised.text) for each in failed if (raised := each.rider(Traceback)) is not None]
    if rows:
        yield "write_tracebacks", rows
    without = {each.n for each in failed} - {n for n, *_ in rows}
    if without:
        yield "delete_tracebacks", {"numbers": text(sorted(without))}
