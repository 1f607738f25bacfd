"""Choose, take and read plain jobs with one statement: what takes SQLite several costs a round trip each here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any

import msgspec

from standfast.job import HTTP, Claim, Details
from standfast.rules import QueueRules
from standfast.store.steps import Round, Rows, Script, text

Stamps = Mapping[str, tuple[Any, float | None, Any]]
"""By handler, the replay mode and the timeout that were declared, and what else was."""
Read = Callable[[Round, list[int]], Script[list[Claim]]]


def take_lane(  # noqa: PLR0917 - as the spine calls it
    round_: Round, worker: str, want: Any, rules: QueueRules, declared: Stamps, read: Read
) -> Script[tuple[list[Claim], Rows]]:
    """Take as many jobs as are wanted of a queue's only lane; of several lanes take none, and give the lanes.

    If any of the jobs is more than plain, all are read the usual way.
    """
    stamps = [(handler, *declared.get(handler, UNDECLARED)[:2]) for handler in want.handlers]
    given = {"queue": want.queue, "worker": worker, "now": round_.now, "wanted": want.slots, "but": HTTP}
    given |= {"attempts": rules.attempts, "lease": rules.lease, "timeout": rules.timeout, "stamps": text(stamps)}
    rows = yield "take_lane", given
    if rows and rows[0][2] is None:
        return [], [row[:2] for row in rows]
    if all(map(_is_plain, rows)):
        return [_claim(round_.now, worker, want.queue, row) for row in rows], []
    return (yield from read(round_, [row[2] for row in rows])), []


UNDECLARED = ("replay", None, None)
_is_plain = itemgetter(-2)


def _claim(now: float, worker: str, queue: str, row: tuple[Any, ...]) -> Claim:
    handler, _, n, token, id_, payload, attempts, most, start, lease, timeout, replay_mode, *rest = row
    entered, expires, details, seen, due, _, _ = rest
    return Claim(
        *(n, token, id_, queue, handler, worker, payload, attempts, most, start, lease, timeout),
        *(replay_mode, now, entered, expires, None, _details(details)),
        first_seen_at=seen,
        due_at=due,
    )


@lru_cache(maxsize=256)
def _details(written: str) -> Details:
    """Read details; those of most jobs are alike."""
    return _read_details(written)


_read_details = msgspec.json.Decoder(Details).decode
