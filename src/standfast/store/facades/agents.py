"""Inboxes, consents and alerts as the store's users see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from standfast.store.engine import Engine
from standfast.store.scripts import Write
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.scripts import Alert, Found, Telling
from standfast.wings.consent import scripts as consents
from standfast.wings.consent.scripts import Ask, Given, Taking
from standfast.wings.consent.words import Attempt, Grant, Ruling
from standfast.wings.jobs.reads import JobRow
from standfast.wings.sessions import scripts as sessions
from standfast.wings.sessions.scripts import Message, Reading

PATIENCE = 5.0
"""Seconds a caller waits for the store before it is told."""


class Agents:
    """The verbs about what agents are told and allowed, and whom else it is told."""

    def __init__(self, engine: Callable[[], Engine[Any]]) -> None:
        self._engine = engine

    async def _one(self, script: Write[Any, Any], item: Any) -> Any:
        [answer] = await self._engine().call(script, [item], seconds=PATIENCE)
        return answer

    # --- inboxes

    async def messages(self, session: str, limit: int, *, unread: bool) -> list[Message]:
        """Read the messages of one session, the newest first."""
        return await self._engine().read(sessions.messages(session, limit, unread=unread))

    async def read(self, reading: Reading) -> list[str]:
        """Note that messages were read; give the ids of those there are."""
        return await self._one(sessions.read, reading)  # type: ignore[no-any-return]

    async def keep_reply(self, job_id: str) -> None:
        """Have a job's end be told to its session, because its caller did not wait for the reply."""
        await self._one(sessions.keep_replies, job_id)

    # --- consent

    async def consent_to(self, attempt: Attempt, now: float) -> Ruling:
        """Read what the grants say about an attempt."""
        return await self._engine().read(consents.judged(attempt, now))

    async def enter(self, attempt: Attempt) -> Ruling:
        """Judge an attempt by the grants of its session, and spend what it needs."""
        return await self._one(consents.enter, attempt)  # type: ignore[no-any-return]

    async def give(self, given: Given) -> None:
        """Write down what was said to a session."""
        await self._one(consents.give, given)

    async def take_back(self, taking: Taking) -> int:
        """Have what was said to a session count no more; give how much that was."""
        return await self._one(consents.take_back, taking)  # type: ignore[no-any-return]

    async def grants(self, session: str | None, now: float, limit: int) -> list[Grant]:
        """Read what counts, the newest first."""
        return await self._engine().read(consents.listed(session, now, limit))

    async def asks(self, session: str | None, limit: int) -> list[Ask]:
        """Read what jobs are held for, the oldest first."""
        return await self._engine().read(consents.asks(session, limit))

    async def answered(self, now: float) -> list[tuple[Ask, Ruling]]:
        """Read the held jobs that something was said about since."""
        return await self._engine().read(consents.answered(now))

    # --- alerts

    async def followed(self, name: str) -> int | None:
        """Read how far somebody followed the journal."""
        return await self._engine().read(alerts.followed(name))

    async def begin_following(self, name: str) -> None:
        """Begin to follow the journal at its end, unless that is begun."""
        await self._one(alerts.begin, [name])

    def begin_following_blocking(self, names: Sequence[str]) -> None:
        """Do the same under several names, for a caller without a loop."""
        self._engine().call(alerts.begin, [names], seconds=PATIENCE).result()

    async def follow(self, found: Found) -> int:
        """Count what was found in the journal, and move the cursor; give where it is."""
        return await self._one(alerts.follow, found)  # type: ignore[no-any-return]

    async def due_alerts(self, now: float) -> list[Alert]:
        """Read the alerts whose time to be told has come."""
        return await self._engine().read(alerts.due(now))

    async def tell(self, tellings: Sequence[Telling]) -> list[bool]:
        """Store the jobs that tell of alerts; tell of each whether nobody was first."""
        return await self._engine().call(alerts.tell, tellings, seconds=PATIENCE)  # type: ignore[no-any-return]

    async def letters(self, ids: Sequence[str]) -> list[JobRow]:
        """Read jobs by their ids."""
        return await self._engine().read(alerts.letters(ids))
