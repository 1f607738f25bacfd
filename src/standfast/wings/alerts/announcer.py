"""Announces alerts on surfaces: letters of one cause, conditions that began or ended, and pain signals.

An announcement is one job for each surface, stored together with the note that it was made. However many processes
announce, and whichever is killed: nothing is announced twice, and the announcements of one condition reach a surface in
order. A pain signal is not sent again while the previous one is still on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from standfast.job import NewJob
from standfast.spine.accept import Acceptor
from standfast.spine.bulk import store_bulk
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, Step
from standfast.store.store import Store
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.phrasing import pain, told
from standfast.wings.alerts.rules import PAIN_EVERY
from standfast.wings.alerts.surfaces import PAIN, QUEUE, Notify
from standfast.wings.alerts.words import Condition, LetterAlert, OpenAlert
from standfast.wings.threads.scripts import IN_ORDER

BEGINNING, END = 1, 2
Row = TypeVar("Row")


class Telling(NamedTuple):
    """The jobs of an announcement, the statement that notes it, and the statement that takes the note back.

    The first statement returns a row unless another process was first.
    """

    noted: Step
    jobs: tuple[NewJob, ...] = ()
    untold: Step = ("", {})


def cause_told(alert: LetterAlert, now: float, window: float, jobs: Sequence[NewJob]) -> Telling:
    """Announce letters of one cause, and no more of them within the window. Without jobs, close their alert."""
    known = {"fingerprint": alert.fingerprint, "told": alert.told, "now": now}
    if not jobs:
        return Telling(("close_alert", known))
    undone = {**known, "told": alert.number, "now": now + window, "number": alert.told, "tell_at": now}
    noted = {**known, "number": alert.number, "tell_at": now + window}
    return Telling(("alert_told", noted), tuple(jobs), ("alert_told", undone))


def edge_told(id_: str, edge: int, jobs: Sequence[NewJob]) -> Telling:
    """Announce the beginning (1) or the end (2) of a condition; the end only after the beginning."""
    noted, undone = ({"id": id_, "told": at, "before": 2 * edge - 1 - at} for at in (edge, edge - 1))
    return Telling(("condition_told", noted), tuple(jobs), ("condition_told", undone))


def pain_told(condition: Condition, now: float, job: NewJob) -> Telling:
    """Send a pain signal, unless one was sent lately, counted from its delivery, or the last one is on its way."""
    about = {"kind": str(condition.kind), "queue": condition.queue, "subject": condition.subject, "job": job.id}
    earlier = now - PAIN_EVERY
    noted, undone = {**about, "now": now, "before": earlier}, {**about, "now": earlier, "before": now}
    return Telling(("note_pain", noted), (job,), ("note_pain", undone))


@writes(newcomers=lambda tellings: (job for each in tellings for job in each.jobs))
def tell(round_: Round, tellings: Sequence[Telling]) -> Script[list[bool]]:
    """Store the jobs of announcements, unless another process was first; answer for each whether it was stored.

    An announcement that the queue has no room for is made later.
    """
    answers = [False] * len(tellings)
    for place, each in sorted(enumerate(tellings), key=lambda told: str(told[1].noted)):  # the lock order
        went = bool((yield each.noted))
        if went and each.jobs and not (yield from store_bulk(round_, each.jobs)):
            yield each.untold
            went = False
        answers[place] = went
    return answers


class Announcer:
    """Announces what is not announced yet. A process without `[notify]` leaves that to other processes."""

    def __init__(self, store: Store, acceptor: Acceptor, notify: Notify) -> None:
        self._store = store
        self._acceptor = acceptor
        self._notify = notify

    async def announce_letters(self) -> None:
        """Announce the letters whose time has come."""
        while await self._announce(alerts.due, self._cause):
            pass

    async def announce(self) -> None:
        """Announce conditions that began or ended, and send pain signals for some open ones."""
        while self._notify.surfaces and await self._announce(alerts.untold, self._edges):
            pass
        if self._notify.pain is not None:
            await self._announce(partial(alerts.hurting, every=PAIN_EVERY), self._pain)

    async def _announce(
        self, due: Callable[[float], Script[list[Row]]], tellings_of: Callable[[Row], list[Telling]]
    ) -> bool:
        """Announce some of what is due; False once nothing is left, another process was first, or there is no room."""
        rows = await self._store.read(due(self._store.now()))
        tellings = [telling for row in rows for telling in tellings_of(row)]
        return bool(tellings) and any(await self._store.write_all(tell, tellings))

    def _cause(self, alert: LetterAlert) -> list[Telling]:
        """Build the announcement of one cause: a job for each surface, so that a dead one does not delay the others."""
        jobs: list[NewJob] = []
        if alert.number > alert.told:
            since = self._moment(alert.opened_at)
            said = {**msgspec.json.decode(alert.sample), "count": alert.number - alert.told, "since": since}
            about = {**said, "fingerprint": alert.fingerprint, "more": alert.told > 0}
            surfaces: list[str] = msgspec.json.decode(alert.surfaces)
            jobs = self._acceptor.internal(QUEUE, [{"surface": name, "alert": about} for name in surfaces])
        return [cause_told(alert, self._store.now(), self._notify.window, jobs)]

    def _edges(self, alert: OpenAlert) -> list[Telling]:
        """Build the announcements of a condition that were not made yet; its end only after its beginning."""
        edges = [edge for edge in (BEGINNING, END) if edge > alert.told and (edge == BEGINNING or alert.ended_at)]
        return [edge_told(alert.id, edge, self._jobs(alert, edge)) for edge in edges]

    def _jobs(self, alert: OpenAlert, edge: int) -> list[NewJob]:
        """Build the jobs that announce a beginning or an end, for each surface except the one the alert is about."""
        condition, since = alert.condition, self._moment(alert.started_at)
        if edge == BEGINNING:
            started = told(condition, state="started", since=since)
        else:
            started = told(condition, state="ended", since=since, until=self._moment(alert.ended_at or 0.0))
        surfaces = self._notify.routed(str(condition.kind), condition.queue)
        return [self._job(name, alert.id, started) for name in surfaces if name != condition.subject]

    def _job(self, surface: str, alert: str, about: dict[str, Any]) -> NewJob:
        """Build one job. The jobs of one alert for one surface are a thread: the end comes after the beginning."""
        [job] = self._acceptor.internal(QUEUE, [{"surface": surface, "alert": about}])
        return msgspec.structs.replace(job, thread_key=f"{IN_ORDER}{surface} {alert}")

    def _pain(self, alert: OpenAlert) -> list[Telling]:
        """Build a pain signal. That the surface for pain signals fails is not announced on that surface."""
        if alert.subject == PAIN:
            return []
        signal = pain(alert.condition, self._moment(alert.started_at))
        [job] = self._acceptor.internal(QUEUE, [{"surface": PAIN, "pain": signal}])
        return [pain_told(alert.condition, self._store.now(), job)]

    def _moment(self, at: float) -> str:
        return datetime.fromtimestamp(at + self._store.skew(), UTC).isoformat(timespec="seconds")
