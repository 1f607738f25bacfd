"""Follows the journal for letters somebody should hear of, from a cursor that is moved with what it found.

Letters of one cause are one alert: they are counted for a moment, told, and what comes of the same cause within the
window is told once at its end. A cause, its count, the cursor and the jobs that carry the alert out are written in
transactions, so that whoever is killed on the way, and however many follow, no letter is lost or counted twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from standfast.failure import Failure
from standfast.job import NewJob
from standfast.lifecycle import State
from standfast.profiles import stored_rules
from standfast.redact import redacted_text
from standfast.spine.accept import Acceptor
from standfast.store.store import Store
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.cursors import ALERTS, Cursors
from standfast.wings.alerts.loudness import loud
from standfast.wings.alerts.scripts import Alert, Cause, Found, Telling
from standfast.wings.alerts.surfaces import KINDS, Notify
from standfast.wings.notices.journal import journal
from standfast.wings.notices.scripts import JournalRow
from standfast.wings.records.reads import JobRow

log = logging.getLogger("standfast.notify")

QUEUE = "standfast.notify"
"""The queue that carries alerts out."""
EVERY = 1.0
ROWS_AT_ONCE = 500
AHEAD = 1000
"""So many rows without a loud letter are followed before that is written down."""
LONGEST_MESSAGE = 500

_entries = msgspec.json.Decoder(list[tuple[str, str, list[str]]]).decode
_failure = msgspec.json.Decoder(Failure).decode


class Follower:
    """Turns loud letters into jobs that tell of them. Any worker can follow, and all may at once."""

    def __init__(self, store: Store, acceptor: Acceptor, notify: Notify, cursors: Cursors) -> None:
        self._store = store
        self._acceptor = acceptor
        self._notify = notify
        self._cursors = cursors

    async def follow(self) -> None:
        """Follow to the end of the journal, and tell what is due."""
        while await self._read_on():
            pass
        while await self._tell():
            pass

    async def _read_on(self) -> bool:
        """Take the next rows; tell whether there may be more."""
        written, at = await self._cursors.place(ALERTS)
        rows = await journal(self._store, at, ROWS_AT_ONCE)
        if not rows:
            return False
        if rows[0].seq > at + 1 and at > 0:
            log.warning("%d transactions were pruned before they were followed for alerts", rows[0].seq - at - 1)
        causes = await self._causes(rows)
        if causes or rows[-1].seq - written >= AHEAD:
            await self._store.write(alerts.follow, Found(ALERTS, rows[-1].seq, causes, settle=self._notify.settle))
        self._cursors.read_to(ALERTS, rows[-1].seq)
        return len(rows) == ROWS_AT_ONCE

    async def _causes(self, rows: Sequence[JournalRow]) -> tuple[Cause, ...]:
        told = {job: (row.seq, kind) for row in rows for kind, job in _stopped(row)}
        if not told:
            return ()
        found = [self._cause(row, *told[row.id]) for row in await self._store.read(alerts.letters(sorted(told)))]
        return tuple(cause for cause in found if cause is not None)

    def _cause(self, row: JobRow, seq: int, kind: str) -> Cause | None:
        rules = stored_rules(row.queue, row.rules)
        failure = _failure(row.failure) if row.failure else None
        triage = msgspec.json.decode(row.triage) if row.triage else {}
        by_itself = triage.get("replay_status") == "scheduled"
        if not loud(row.queue, rules, State(row.state), failure, replays_by_itself=by_itself):
            return None
        surfaces = self._notify.routed(kind, row.queue, *(() if failure is None else failure.codes))
        if not surfaces:
            return None
        sample = _sample(row, kind, failure)
        cause = row.fingerprint or f"{row.queue}/{row.handler} {sample.get('reason_code', '')}"
        return Cause(seq, cause, tuple(surfaces), msgspec.json.encode(sample).decode())

    async def _tell(self) -> bool:
        """Have the queue carry out what is due; tell whether there may be more, and room for it."""
        due = await self._store.read(alerts.due(self._store.now()))
        return bool(due) and any(await self._store.write_all(alerts.tell, [self._telling(each) for each in due]))

    def _telling(self, alert: Alert) -> Telling:
        jobs = self._jobs(alert) if alert.number > alert.told else []
        return Telling(alert.fingerprint, alert.number, alert.told, self._notify.window, tuple(jobs))

    def _jobs(self, alert: Alert) -> list[NewJob]:
        """Lay out the jobs that tell of an alert, one for each surface: a dead one keeps none of the others waiting."""
        since = datetime.fromtimestamp(alert.opened_at + self._store.skew(), UTC).isoformat(timespec="seconds")
        said = {**msgspec.json.decode(alert.sample), "count": alert.number - alert.told, "since": since}
        about = {**said, "fingerprint": alert.fingerprint, "more": alert.told > 0}
        surfaces: list[str] = msgspec.json.decode(alert.surfaces)
        return self._acceptor.own(QUEUE, [{"surface": name, "alert": about} for name in surfaces])


def _stopped(row: JournalRow) -> Iterable[tuple[str, str]]:
    for kind, _, ids in _entries(row.entries):
        if kind in KINDS:
            yield from ((kind, job_id) for job_id in ids)


def _sample(row: JobRow, kind: str, failure: Failure | None) -> dict[str, Any]:
    """Say what one letter of a cause is about, without anything that is nobody else's business."""
    said: dict[str, Any] = {"kind": kind, "job_id": row.id, "queue": row.queue, "handler": row.handler}
    if failure is None:
        return {**said, "state": row.state}
    message = redacted_text(failure.told, longest=LONGEST_MESSAGE)
    told: dict[str, str] = {"reason_code": failure.reason_code, "class": failure.cls, "landed": failure.landed}
    if failure.cause is not None:
        told["cause"] = failure.cause
    return {**said, "state": row.state, **told, "message": message, "advice": failure.advice}
