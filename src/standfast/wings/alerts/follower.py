"""Follows the journal for letters that need an alert, from a cursor that moves together with what was found.

Letters of one cause are one alert: they are counted for a moment and announced; further letters of the cause within
the window are announced once, at its end. A cause, its count, the cursor and the jobs that deliver the alert are
written in transactions: whichever process is killed, and however many follow, no letter is lost or counted twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import msgspec

from standfast.failure import Failure
from standfast.job import Details
from standfast.lifecycle import State
from standfast.profiles import stored_rules
from standfast.store.store import Store
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.announcer import Announcer
from standfast.wings.alerts.cursors import ALERTS, Cursors
from standfast.wings.alerts.phrasing import sample
from standfast.wings.alerts.rules import loud
from standfast.wings.alerts.scripts import Cause, Found
from standfast.wings.alerts.surfaces import KINDS, Notify
from standfast.wings.notices.journal import journal
from standfast.wings.notices.scripts import JournalRow
from standfast.wings.notices.words import entries
from standfast.wings.records.reads import JobRow

log = logging.getLogger("standfast.notify")

EVERY = 1.0
ROWS_AT_ONCE = 500
AHEAD = 1000
"""After this many rows without a loud letter, the cursor is stored all the same."""

_failure = msgspec.json.Decoder(Failure).decode


class Follower:
    """Turns loud letters into jobs that announce them. Any worker can follow, and all may at once."""

    def __init__(self, store: Store, notify: Notify, cursors: Cursors, teller: Announcer) -> None:
        self._store = store
        self._teller = teller
        self._notify = notify
        self._cursors = cursors

    async def follow(self) -> None:
        """Follow to the end of the journal, and announce what is due."""
        while await self._read_next():
            pass
        await self._teller.announce_letters()

    async def _read_next(self) -> bool:
        """Read the next rows; return whether there may be more."""
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
        stopped = {job: (row.seq, kind) for row in rows for kind, job in _stopped(row)}
        if not stopped:
            return ()
        found = [self._cause(row, *stopped[row.id]) for row in await self._store.read(alerts.letters(sorted(stopped)))]
        return tuple(cause for cause in found if cause is not None)

    def _cause(self, row: JobRow, seq: int, kind: str) -> Cause | None:
        rules = stored_rules(row.queue, row.rules)
        failure = _failure(row.failure) if row.failure else None
        triage = msgspec.json.decode(row.triage) if row.triage else {}
        by_itself = triage.get("replay_status") == "scheduled"
        details = msgspec.json.decode(row.details, type=Details)
        if not loud(row.queue, rules, State(row.state), failure, replays_by_itself=by_itself, details=details):
            return None
        surfaces = self._notify.routed(kind, row.queue, *(() if failure is None else failure.codes))
        if not surfaces:
            return None
        about = sample(row, kind, failure)
        cause = row.fingerprint or f"{row.queue}/{row.handler} {about.get('reason_code', '')}"
        return Cause(seq, cause, tuple(surfaces), msgspec.json.encode(about).decode())


def _stopped(row: JournalRow) -> Iterable[tuple[str, str]]:
    for kind, _, ids in entries(row.entries):
        if kind in KINDS:
            yield from ((kind, job_id) for job_id in ids)
