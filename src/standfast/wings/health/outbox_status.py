"""What waits in the outboxes, as people see it: exactly where an outbox is declared, and elsewhere by its marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from standfast.wings.alerts.words import AlertKind, Condition
from standfast.wings.records.figures import count_of, span
from standfast.wings.relay.outbox_marks import KnownOutbox, known
from standfast.wings.relay.outboxes import CountedOutbox

UNRELAYED_AFTER = 30.0
"""Seconds without a relay after which jobs that wait in an outbox are an issue: three marks of a relay that runs."""
NEXT = "start a worker of the application that declares it (sf.outbox)"


class OutboxStatus(NamedTuple):
    """One outbox: what waits there, and when it was last relayed."""

    database: str
    jobs: int | None
    """How many jobs wait there; None in a process that does not declare the outbox."""
    oldest_seconds: float | None
    """For how many seconds the oldest has waited, as far as is known."""
    relayed_seconds_ago: float | None
    """How many seconds ago it was last relayed; None if it never was."""
    problem: str | None = None

    @property
    def unrelayed_seconds(self) -> float:
        """For how many seconds jobs have waited there that nothing relays; 0 if there are none, or a relay runs."""
        relayed = self.relayed_seconds_ago is not None and self.relayed_seconds_ago <= UNRELAYED_AFTER
        return 0.0 if relayed or self.jobs == 0 else self.oldest_seconds or 0.0

    @property
    def unrelayed(self) -> bool:
        """Whether that is long enough to be an issue."""
        return self.unrelayed_seconds > UNRELAYED_AFTER

    @property
    def issue(self) -> str | None:
        """The issue that health reports, if there is one."""
        if self.problem is not None:
            return f"outbox: {self.database} cannot be read: {self.problem}"
        if not self.unrelayed:
            return None
        if self.relayed_seconds_ago is None:
            relayed = "it has never been relayed"
        else:
            relayed = f"it has not been relayed for {span(self.relayed_seconds_ago)}"
        return f"outbox: {self._waiting()}, and {relayed}: {NEXT}"

    def _waiting(self) -> str:
        if self.jobs is None:
            return f"a job was put into {self.database} {span(self.oldest_seconds)} ago"
        verb = "waits" if self.jobs == 1 else "wait"
        return f"{count_of(self.jobs, 'job')} {verb} in {self.database}, the oldest for {span(self.oldest_seconds)}"

    def display(self) -> dict[str, Any]:
        """Return it for health and stats."""
        return self._asdict()


def conditions(outboxes: Sequence[OutboxStatus]) -> Iterator[Condition]:
    """Return those that are an alert."""
    for each in outboxes:
        if each.unrelayed and each.issue is not None:
            waited = each.unrelayed_seconds
            yield Condition(
                AlertKind.OUTBOX, each.issue, subject=each.database, value=waited, threshold=UNRELAYED_AFTER
            )


def statuses(
    marks: Mapping[str, float], counted: Sequence[CountedOutbox], *, now: float, skew: float
) -> list[OutboxStatus]:
    """Return the state of every outbox that the store knows or this process declares."""
    here = {each.database: each for each in counted}
    stored = {each.database: each for each in known(marks)}
    return list(_statuses(here, stored, now, now + skew))


def _statuses(
    here: Mapping[str, CountedOutbox], stored: Mapping[str, KnownOutbox], now: float, wall: float
) -> Iterator[OutboxStatus]:
    for database in sorted({*here, *stored}):
        marks = stored.get(database, KnownOutbox(database, None, None))
        relayed = None if marks.relayed_at is None else round(now - marks.relayed_at, 3)
        count = here.get(database)
        if count is None:
            since = None if marks.waiting_since is None else round(now - marks.waiting_since, 3)
            yield OutboxStatus(database, None, since, relayed)
        else:
            since = None if count.oldest_at is None else round(max(0.0, wall - count.oldest_at), 3)
            yield OutboxStatus(database, count.jobs, since, relayed, count.problem)
