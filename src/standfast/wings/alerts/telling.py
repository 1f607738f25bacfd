"""Tells surfaces of alerts that began or are over, and has open ones hurt: as jobs, stored with the note of it.

However many processes tell, and whoever of them is killed: each beginning and each end becomes one job for each
surface, and they come in order. A signal is not sent again while the one before it is still on its way.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from standfast.job import NewJob
from standfast.spine.accept import Acceptor
from standfast.store.store import Store
from standfast.wings.alerts import conditions
from standfast.wings.alerts.conditions import Open, Pain, Told
from standfast.wings.alerts.follower import QUEUE
from standfast.wings.alerts.rules import PAIN_EVERY, pain, told
from standfast.wings.alerts.surfaces import PAIN, Notify
from standfast.wings.threads.scripts import IN_ORDER

BEGINNING, END = 1, 2


class Teller:
    """Tells what was not told yet. A process without `[notify]` has nobody to tell, and leaves it to others."""

    def __init__(self, store: Store, acceptor: Acceptor, notify: Notify) -> None:
        self._store = store
        self._acceptor = acceptor
        self._notify = notify

    async def tell(self) -> None:
        """Tell of what began or is over, and of what hurts."""
        if self._notify.surfaces:
            while await self._tell():
                pass
        if self._notify.pain is not None:
            hurting = await self._store.read(conditions.hurting(self._store.now(), PAIN_EVERY))
            signals = [self._pain(alert) for alert in hurting if alert.subject != PAIN]
            if signals:
                await self._store.write_all(conditions.hurt, signals)

    async def _tell(self) -> bool:
        """Tell what is untold; tell whether there may be more: not where others were first, or there is no room."""
        untold = await self._store.read(conditions.untold(self._store.now()))
        tellings = [each for alert in untold for each in self._tellings(alert)]
        return bool(tellings) and any(await self._store.write_all(conditions.tell, tellings))

    def _tellings(self, alert: Open) -> list[Told]:
        """Lay out what nobody was told of an alert; its end only after its beginning."""
        edges = [edge for edge in (BEGINNING, END) if edge > alert.told and (edge == BEGINNING or alert.ended_at)]
        return [Told(alert.id, edge, tuple(self._jobs(alert, edge))) for edge in edges]

    def _jobs(self, alert: Open, edge: int) -> list[NewJob]:
        """Lay out the jobs that tell of one edge, for each surface but the one that it is about."""
        condition, since = alert.condition, self._moment(alert.started_at)
        if edge == BEGINNING:
            said = told(condition, state="started", since=since)
        else:
            said = told(condition, state="ended", since=since, until=self._moment(alert.ended_at or 0.0))
        surfaces = self._notify.routed(str(condition.kind), condition.queue)
        return [self._job(name, alert.id, said) for name in surfaces if name != condition.subject]

    def _job(self, surface: str, alert: str, said: dict[str, Any]) -> NewJob:
        """Lay out one job. What one surface is told of one alert is a thread: an end comes after its beginning."""
        [job] = self._acceptor.own(QUEUE, [{"surface": surface, "alert": said}])
        return replace(job, thread_key=f"{IN_ORDER}{surface} {alert}")

    def _pain(self, alert: Open) -> Pain:
        signal = pain(alert.condition, self._moment(alert.started_at))
        [job] = self._acceptor.own(QUEUE, [{"surface": PAIN, "pain": signal}])
        return Pain(alert.condition, PAIN_EVERY, job)

    def _moment(self, at: float) -> str:
        return datetime.fromtimestamp(at + self._store.skew(), UTC).isoformat(timespec="seconds")
