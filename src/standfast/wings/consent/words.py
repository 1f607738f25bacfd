"""Consent as values: what a session was allowed or denied, and what that means for one attempt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

import msgspec

from standfast.lifecycle import Carried

Mode = Literal["once", "timed", "always", "deny"]
MODES: tuple[Mode, ...] = get_args(Mode)
EVERY = "*"
"""The handler of a blanket grant: one for anything that the session does first-hand."""
NOBODY = ""
"""The session of jobs that have none."""
TIMED = 3600.0
"""Seconds a timed grant is valid, unless it says otherwise."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """One grant or denial to a session. Fields are in the order of the statement's columns; times are queue time."""

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
        """Return whether it is in force."""
        return self.revoked_at is None and self.expires_at > now

    def covers(self, queue: str, handler: str) -> bool:
        """Return whether it is about this handler."""
        return self.blanket or (self.queue == queue and self.handler == handler)


class Attempt(msgspec.Struct, frozen=True):
    """An attempt that asks. `first` means that nothing of the job ran before: a blanket grant covers only that."""

    session: str
    queue: str
    handler: str
    job: str
    """Identifies the work: with an amended payload it is other work."""
    first: bool


class Ruling(NamedTuple):
    """What the grants say: go on (by which), ask, or never; and whether that spends a use of the grant."""

    verdict: Literal["allowed", "ask", "denied"]
    grant: str | None = None
    spends: bool = False


ASK = Ruling("ask")


class Use(Carried, frozen=True, order=True):
    """A use of a grant by one job, whose repeats need no other."""

    grant: str
    job: str


def ruling(attempt: Attempt, grants: Iterable[Grant], spent: Iterable[str], now: float) -> Ruling:
    """Decide whether an attempt may enter its handler. `spent` names the grants that this job has used before.

    A denial wins over every grant. A blanket grant does not extend in time: it covers no retry and no replay. A job
    that has its use already, whatever became of that attempt, needs no second one; otherwise a grant without a limit of
    uses goes first. The statement `answered_asks` finds the held jobs for which this does not say "ask".
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
