"""Scripts for alerts as conditions: what is open, what a look changed, who was told; and for pain and dead surfaces.

Any process may look, and many do. One at a time has the turn, for a few seconds; what a look found is written only if
nobody else has looked since. What surfaces are told of is written with the jobs that tell it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from standfast.job import NewJob
from standfast.lifecycle import NoticeKind
from standfast.spine.bulk import stored_together
from standfast.store.scripts import writes
from standfast.store.steps import Round, Rows, Script, text
from standfast.wings.alerts.words import AlertKind, Condition

TURN = "alerts"
"""What the turn to look for alerts is called in the upkeep."""
BITE = 100
"""How many alerts one look for what is untold takes up."""
MOST_OPEN = 10_000
"""How many open alerts are read; nobody has so many queues."""
_KINDS = text(list(AlertKind))
"""The kinds known here. Those that only a newer library has are its own to look after."""
NEWS_FOR = 3600.0
"""Seconds after its end in which an alert that nobody was told of is still news."""
KEPT = 30 * 86400.0
"""Seconds for which an alert that is over can be looked up."""
FAILING_FOR = 3600.0
"""Seconds after its last failure in which a surface that was sent nothing more counts as failing: it may be gone."""


class Open(NamedTuple):
    """An alert that is not over. Field order is the statement's."""

    id: str
    kind: str
    queue: str
    subject: str
    message: str
    value: float
    threshold: float
    started_at: float
    clear_since: float | None = None
    ended_at: float | None = None
    told: int = 0

    @property
    def condition(self) -> Condition:
        """What is, or was, wrong."""
        told = (self.message, self.queue, self.subject, self.value, self.threshold)
        return Condition(AlertKind(self.kind), *told)


class Observation(NamedTuple):
    """What one look changed, under the turn it held: conditions by the id they have, or get."""

    held: float
    begins: tuple[tuple[str, Condition], ...] = ()
    goes_on: tuple[tuple[str, Condition], ...] = ()
    clears: tuple[str, ...] = ()
    ends: tuple[tuple[str, Condition], ...] = ()


class Told(NamedTuple):
    """The jobs that tell surfaces of an alert's beginning (1) or end (2)."""

    id: str
    told: int
    jobs: tuple[NewJob, ...]


class Pain(NamedTuple):
    """The job that carries a pain signal; nothing hurts again within so many seconds."""

    condition: Condition
    every: float
    job: NewJob


class Word(NamedTuple):
    """How a delivery to a surface went: well, or why not."""

    name: str
    why: str | None = None


@writes()
def take_turn(round_: Round, turns: Sequence[float]) -> Script[list[float | None]]:
    """Let one process look, for so many seconds; None for those that somebody else is before."""
    answers = []
    for seconds in turns:
        given = {"name": TURN, "until": round_.now + seconds, "now": round_.now, "held": None}
        answers.append(next((until for (until,) in (yield "take_upkeep", given)), None))
    return answers


@writes()
def observe(round_: Round, observations: Sequence[Observation]) -> Script[list[bool]]:
    """Write what looks changed, each unless somebody has looked since; tell of each whether it was written."""
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
            round_.told[NoticeKind.ALERT_STARTED, condition.queue].append(condition.name)
            if condition.kind == AlertKind.DEPTH:
                round_.told[NoticeKind.DEPTH_WARNING, condition.queue].append("")
    for id_, condition in seen.goes_on:
        measured = {"message": condition.message, "value": condition.value, "threshold": condition.threshold}
        yield "renew_condition", {"id": id_, **measured}
    for id_ in seen.clears:
        yield "clear_condition", {"id": id_, "now": round_.now}
    for id_, condition in seen.ends:
        if (yield "end_condition", {"id": id_, "now": round_.now}):
            round_.told[NoticeKind.ALERT_ENDED, condition.queue].append(condition.name)
            if condition.kind == AlertKind.DEPTH:
                round_.told[NoticeKind.DEPTH_NORMAL, condition.queue].append("")


def _columns(condition: Condition) -> dict[str, Any]:
    named = {"kind": str(condition.kind), "queue": condition.queue, "subject": condition.subject}
    return {**named, "message": condition.message, "value": condition.value, "threshold": condition.threshold}


@writes(newcomers=lambda tellings: (job for each in tellings for job in each.jobs))
def tell(round_: Round, tellings: Sequence[Told]) -> Script[list[bool]]:
    """Store the jobs that tell of alerts, unless somebody else was first; answer of each whether it went.

    What the queue that carries them has no room for stays untold.
    """
    answers = []
    for each in tellings:
        before = each.told - 1
        went = bool((yield "condition_told", {"id": each.id, "told": each.told, "before": before}))
        if went and each.jobs and not (yield from stored_together(round_, each.jobs)):
            yield "condition_told", {"id": each.id, "told": before, "before": each.told}
            went = False
        answers.append(went)
    return answers


@writes()
def hurt(round_: Round, pains: Sequence[Pain]) -> Script[list[bool]]:
    """Store the jobs that carry pain signals, unless the same thing hurt lately, or its last signal is still here.

    Lately is counted from its delivery, for which it may have waited. One that there is no room for is due again.
    """
    answers = []
    for each in pains:
        kind, queue, subject = each.condition.key
        named = {"kind": str(kind), "queue": queue, "subject": subject, "job": each.job.id}
        before = round_.now - each.every
        due = bool((yield "note_pain", {**named, "now": round_.now, "before": before}))
        if due and not (yield from stored_together(round_, [each.job])):
            yield "note_pain", {**named, "now": before, "before": round_.now}
            due = False
        answers.append(due)
    return answers


@writes()
def note_sinks(round_: Round, words: Sequence[Word]) -> Script[list[None]]:
    """Write down which surfaces take nothing, since when and why; one that takes something again is forgotten."""
    for each in words:
        if each.why is None:
            yield "forget_sink", {"name": each.name}
        else:
            yield "note_sink", {"name": each.name, "now": round_.now, "why": each.why}
    return [None] * len(words)


def prune(now: float, limit: int) -> Script[None]:
    """Forget alerts that have been over for long, pains that are, and surfaces that nothing is sent to any more."""
    yield "delete_conditions", {"before": now - KEPT, "limit": limit}
    yield "delete_pains", {"before": now - KEPT, "limit": limit}
    yield "delete_sinks", {"before": now - FAILING_FOR}


# --- reading


def last_turn() -> Script[float | None]:
    """Read until when somebody has, or had, the turn to look; None if nobody ever looked."""
    times: dict[str, float] = dict((yield "upkeep_times", {}))
    return times.get(TURN)


def standing() -> Script[list[Open]]:
    """Read the alerts that are open, the oldest first."""
    return _open((yield "open_conditions", {"kinds": _KINDS, "limit": MOST_OPEN}))


def untold(now: float) -> Script[list[Open]]:
    """Read the alerts whose beginning or end no surface was told of."""
    given = {"kinds": _KINDS, "since": now - NEWS_FOR, "now": now, "limit": BITE}
    return _open((yield "untold_conditions", given))


def hurting(now: float, every: float) -> Script[list[Open]]:
    """Read the alerts that are open, whose last signal is not on its way, and came there some time ago."""
    return _open((yield "hurting_conditions", {"kinds": _KINDS, "before": now - every, "limit": BITE}))


def _open(rows: Rows) -> list[Open]:
    return [Open(*row) for row in rows]


def sinks() -> Script[list[tuple[str, float, str]]]:
    """Read the surfaces that take nothing, since when and why."""
    return [(name, since, why) for name, since, why in (yield "failing_sinks", {})]
