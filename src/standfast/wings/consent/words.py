"""Consent as values: what a session was allowed or forbidden to do, and what that says about one attempt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

import msgspec

from standfast.lifecycle import Carried

Mode = Literal["once", "timed", "always", "deny"]
MODES: tuple[Mode, ...] = get_args(Mode)
EVERY = "*"
"""The handler of a blanket grant: one for whatever the session does first-hand."""
NOBODY = ""
"""The session of jobs that have none."""
TIMED = 3600.0
"""Seconds a timed grant lives, unless it says otherwise."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """One grant or denial to a session. Field order is the statement's; times are queue time."""

    id: str
    session: str
    queue: str
    handler: str
    mode: Mode
    given_by: str
    reason: str | None
    granted_at: float
    expires_at: float
    uses: int | None
    used: int = 0
    revoked_at: float | None = None

    @property
    def blanket(self) -> bool:
        """Whether it is for every handler."""
        return self.handler == EVERY

    def lives(self, now: float) -> bool:
        """Whether it still counts."""
        return self.revoked_at is None and self.expires_at > now

    def covers(self, queue: str, handler: str) -> bool:
        """Whether it is about this handler."""
        return self.blanket or (self.queue == queue and self.handler == handler)


class Attempt(msgspec.Struct, frozen=True):
    """An attempt that asks. `first` says that nothing of the job ran before: a blanket grant covers only that."""

    session: str
    queue: str
    handler: str
    job: str
    """What names the work: an amended payload is other work."""
    first: bool


class Ruling(NamedTuple):
    """What the grants say: go on (by which), ask, or never; and whether a use of the grant is spent by it."""

    verdict: Literal["allowed", "ask", "denied"]
    grant: str | None = None
    spends: bool = False


ASK = Ruling("ask")


class Use(Carried, frozen=True, order=True):
    """A use of a grant by one job, whose repeats need no other."""

    grant: str
    job: str


def ruling(attempt: Attempt, grants: Iterable[Grant], spent: Iterable[str], now: float) -> Ruling:
    """Say whether an attempt may enter its handler. `spent` names the grants this very job has used before.

    A no wins over every yes. A blanket grant does not travel in time: it covers no retry and no replay. What has its
    use already, whatever became of that attempt, needs no second one; else what spends nothing is taken first.
    """
    living = [grant for grant in grants if grant.lives(now) and grant.covers(attempt.queue, attempt.handler)]
    for grant in living:
        if grant.mode == "deny":
            return Ruling("denied", grant.id)
    fitting = [grant for grant in living if attempt.first or not grant.blanket]
    had = set(spent)
    for grant in fitting:
        if grant.uses is None or grant.id in had:
            return Ruling("allowed", grant.id)
    free = [grant for grant in fitting if grant.uses is not None and grant.used < grant.uses]
    if not free:
        return ASK
    return Ruling("allowed", min(free, key=lambda grant: (grant.expires_at, grant.id)).id, spends=True)
