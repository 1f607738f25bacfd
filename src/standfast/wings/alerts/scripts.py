"""Scripts for alerts: the cursor of who follows the journal, the causes it found, and the jobs that tell of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from standfast.job import NewJob
from standfast.spine.bulk import stored_together
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text
from standfast.wings.records.reads import JobRow

BITE = 100
"""How many alerts one look takes up."""


class Cause(NamedTuple):
    """One loud letter: where in the journal it stands, what it died of, who is told, and what of it."""

    seq: int
    fingerprint: str
    surfaces: tuple[str, ...]
    sample: str


class Found(NamedTuple):
    """What somebody found who followed the journal up to a row. The first of a cause is told after `settle` seconds."""

    name: str
    seq: int
    causes: tuple[Cause, ...]
    settle: float = 0.0


class Alert(NamedTuple):
    """Letters of one cause. Field order is the statement's."""

    fingerprint: str
    surfaces: str
    sample: str
    opened_at: float
    number: int
    told: int


class Telling(NamedTuple):
    """The jobs that tell of an alert as somebody read it; without jobs nothing new came, and it is over."""

    fingerprint: str
    number: int
    told: int
    window: float
    jobs: tuple[NewJob, ...]


@writes(apart=True)
def begin(_round: Round, batches: Sequence[Sequence[str]]) -> Script[list[None]]:
    """Begin to follow at the end of the journal, under each of these names that is new.

    What is committed is numbered first, under the lock that everybody numbers under: what is committed later gets a
    number behind this one, whoever gives it.
    """
    yield "lock_journal", {}
    yield "number_journal", {}
    for names in batches:
        yield "begin_at_end", {"names": text(sorted(names))}
    return [None] * len(batches)


@writes()
def follow(round_: Round, found: Sequence[Found]) -> Script[list[int]]:
    """Count what was found behind the cursor, and move that; answer with where it is. Others may have been further."""
    answers = []
    for each in found:
        yield "begin_following", {"name": each.name, "seq": 0 if each.causes else each.seq}
        [(at,)] = yield "lock_follower", {"name": each.name}
        fresh = [cause for cause in each.causes if cause.seq > at]
        numbers = Counter(cause.fingerprint for cause in fresh)
        for cause in sorted(
            {cause.fingerprint: cause for cause in fresh}.values(), key=lambda cause: cause.fingerprint
        ):
            opened = {"surfaces": text(cause.surfaces), "sample": cause.sample, "number": numbers[cause.fingerprint]}
            when = {"now": round_.now, "tell_at": round_.now + each.settle}
            yield "raise_alert", {"fingerprint": cause.fingerprint, **opened, **when}
        yield "move_follower", {"name": each.name, "seq": each.seq}
        answers.append(max(at, each.seq))
    return answers


@writes()
def tell(round_: Round, tellings: Sequence[Telling]) -> Script[list[bool]]:
    """Store the jobs that tell of alerts, unless somebody else was first; answer of each whether it went.

    What the queue that carries them has no room for is not told, and due again.
    """
    answers = []
    for each in sorted(tellings, key=lambda telling: telling.fingerprint):
        known = {"fingerprint": each.fingerprint, "told": each.told, "now": round_.now}
        if each.jobs:
            went = yield from _tell(round_, each, known)
        else:
            went = bool((yield "close_alert", known))
        answers.append(went)
    return answers


def _tell(round_: Round, each: Telling, known: dict[str, Any]) -> Script[bool]:
    until = round_.now + each.window
    if not (yield "alert_told", {**known, "number": each.number, "tell_at": until}):
        return False
    if (yield from stored_together(round_, each.jobs)):
        return True
    undone = {"told": each.number, "now": until, "number": each.told, "tell_at": round_.now}
    yield "alert_told", {**known, **undone}
    return False


# --- reading


def followed(name: str) -> Script[int | None]:
    """Read how far somebody followed the journal; None before the first time."""
    return next((seq for (seq,) in (yield "follower", {"name": name})), None)


def due(now: float) -> Script[list[Alert]]:
    """Read the alerts whose time to be told has come."""
    return [Alert(*row) for row in (yield "due_alerts", {"now": now, "limit": BITE})]


def letters(ids: Sequence[str]) -> Script[list[JobRow]]:
    """Read jobs by their ids."""
    return [JobRow(*row) for row in (yield "jobs_by_ids", {"ids": text(list(ids))})]
