"""Scripts for alerts: letters of one cause, conditions with a beginning and an end, and surfaces that fail.

A follower of the journal has a cursor, which moves with the causes it found. Any process may look for conditions, and
many do: one at a time has the turn, for a few seconds, and its findings are written only if no other process looked
since. An announcement is written with the jobs that deliver it: see `announcer.tell`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from standfast.lifecycle import NoticeKind
from standfast.store.scripts import writes
from standfast.store.steps import Round, Rows, Script, text
from standfast.wings.alerts.words import AlertKind, Condition, LetterAlert, OpenAlert
from standfast.wings.notices.scripts import number_bite
from standfast.wings.records.reads import JobRow

BITE = 100
"""How many alerts are announced at once."""
TURN = "alerts"
"""The name, in the upkeep table, of the turn to look for alerts."""
MOST_OPEN = 10_000
"""How many open alerts are read at most."""
_KINDS = text(list(AlertKind))
"""The kinds known here. Kinds that only a newer library has are left to it."""
NEWS_FOR = 3600.0
"""Seconds after its end for which an unannounced alert is still announced."""
KEPT = 30 * 86400.0
"""Seconds for which an alert that is over can be looked up."""
FAILING_FOR = 3600.0
"""Seconds since its last failure for which a surface counts as failing: it may be gone."""


class Cause(NamedTuple):
    """One loud letter: its place in the journal, its fingerprint, its surfaces, and a description."""

    seq: int
    fingerprint: str
    surfaces: tuple[str, ...]
    sample: str


class Found(NamedTuple):
    """What a follower found up to a journal row. The first letter of a cause is announced after `settle` seconds."""

    name: str
    seq: int
    causes: tuple[Cause, ...]
    settle: float = 0.0


class Observation(NamedTuple):
    """What one look changed, under the turn it held: conditions with the ids they have, or will have."""

    held: float
    begins: tuple[tuple[str, Condition], ...] = ()
    goes_on: tuple[tuple[str, Condition], ...] = ()
    clears: tuple[str, ...] = ()
    ends: tuple[tuple[str, Condition], ...] = ()


class Word(NamedTuple):
    """The outcome of a delivery to a surface: well, or why not."""

    name: str
    why: str | None = None


@writes(separate=True)
def begin(_round: Round, batches: Sequence[Sequence[str]]) -> Script[list[bool]]:
    """Begin to follow at the end of the journal, under each of these names that is new; return whether that was done.

    Committed rows are numbered first, under the lock that all numbering takes: rows committed later get a number
    behind this one, whichever process numbers them. If there are too many for one transaction, call this again.
    """
    yield "lock_journal", {}
    more = yield from number_bite()
    if not more:
        for names in batches:
            yield "begin_at_end", {"names": text(sorted(names))}
    return [not more] * len(batches)


@writes()
def follow(round_: Round, found: Sequence[Found]) -> Script[list[int]]:
    """Count the letters found behind the cursor, and move it; answer with its place. Another process may be ahead."""
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
def take_turn(round_: Round, turns: Sequence[float]) -> Script[list[float | None]]:
    """Let one process look for so many seconds; answer None to those that came second."""
    answers = []
    for seconds in turns:
        given = {"name": TURN, "until": round_.now + seconds, "now": round_.now, "held": None}
        answers.append(next((until for (until,) in (yield "take_upkeep", given)), None))
    return answers


@writes()
def observe(round_: Round, observations: Sequence[Observation]) -> Script[list[bool]]:
    """Write what looks changed, each unless another process has looked since; answer which were written."""
    answers = []
    for each in observations:
        given = {"name": TURN, "until": each.held, "now": round_.now, "held": each.held}
        holds = bool((yield "take_upkeep", given))
        if holds:
            yield from _write(round_, each)
        answers.append(holds)
    return answers


def _write(round_: Round, seen: Observation) -> Script[None]:
    for id_, condition in seen.begins:
        if (yield "begin_condition", {"id": id_, **_columns(condition), "now": round_.now}):
            round_.notices[NoticeKind.ALERT_STARTED, condition.queue].append(condition.name)
            if condition.kind == AlertKind.DEPTH:
                round_.notices[NoticeKind.DEPTH_WARNING, condition.queue].append("")
    for id_, condition in seen.goes_on:
        measured = {"message": condition.message, "value": condition.value, "threshold": condition.threshold}
        yield "renew_condition", {"id": id_, **measured}
    for id_ in seen.clears:
        yield "clear_condition", {"id": id_, "now": round_.now}
    for id_, condition in seen.ends:
        if (yield "end_condition", {"id": id_, "now": round_.now}):
            round_.notices[NoticeKind.ALERT_ENDED, condition.queue].append(condition.name)
            if condition.kind == AlertKind.DEPTH:
                round_.notices[NoticeKind.DEPTH_NORMAL, condition.queue].append("")


def _columns(condition: Condition) -> dict[str, Any]:
    named = {"kind": str(condition.kind), "queue": condition.queue, "subject": condition.subject}
    return {**named, "message": condition.message, "value": condition.value, "threshold": condition.threshold}


@writes()
def note_sinks(round_: Round, words: Sequence[Word]) -> Script[list[None]]:
    """Record which surfaces fail, since when and why; the record of a surface that works again is deleted."""
    for each in words:
        if each.why is None:
            yield "forget_sink", {"name": each.name}
        else:
            yield "note_sink", {"name": each.name, "now": round_.now, "why": each.why}
    return [None] * len(words)


def prune(now: float, limit: int) -> Script[None]:
    """Delete alerts and pain signals that are long over, and failures of surfaces that nothing is sent to any more."""
    yield "delete_conditions", {"before": now - KEPT, "limit": limit}
    yield "delete_pains", {"before": now - KEPT, "limit": limit}
    yield "delete_sinks", {"before": now - FAILING_FOR}


# --- reading


def followed(name: str) -> Script[int | None]:
    """Read how far the journal was followed; None before the first time."""
    return next((seq for (seq,) in (yield "follower", {"name": name})), None)


def due(now: float) -> Script[list[LetterAlert]]:
    """Read the letter alerts, cause by cause, that are due to be announced."""
    return [LetterAlert(*row) for row in (yield "due_alerts", {"now": now, "limit": BITE})]


def letters(ids: Sequence[str]) -> Script[list[JobRow]]:
    """Read jobs by their ids."""
    return [JobRow(*row) for row in (yield "jobs_by_ids", {"ids": text(list(ids))})]


def last_turn() -> Script[float | None]:
    """Read until when the turn to look is or was taken; None if it never was."""
    times: dict[str, float] = dict((yield "upkeep_times", {}))
    return times.get(TURN)


def standing() -> Script[list[OpenAlert]]:
    """Read the open alerts, the oldest first."""
    return _open((yield "open_conditions", {"kinds": _KINDS, "limit": MOST_OPEN}))


def untold(now: float) -> Script[list[OpenAlert]]:
    """Read the alerts whose beginning or end was not announced."""
    given = {"kinds": _KINDS, "since": now - NEWS_FOR, "now": now, "limit": BITE}
    return _open((yield "untold_conditions", given))


def hurting(now: float, every: float) -> Script[list[OpenAlert]]:
    """Read the open alerts whose last pain signal is not on its way and was not delivered lately."""
    return _open((yield "hurting_conditions", {"kinds": _KINDS, "before": now - every, "limit": BITE}))


def _open(rows: Rows) -> list[OpenAlert]:
    return [OpenAlert(*row) for row in rows]


def sinks() -> Script[list[tuple[str, float, str]]]:
    """Read the surfaces that fail, since when and why."""
    return [(name, since, why) for name, since, why in (yield "failing_sinks", {})]
