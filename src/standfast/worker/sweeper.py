"""Finds jobs whose worker is lost and jobs that waited too long, and decides each like any other end."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from functools import partial
from itertools import compress

import msgspec

from standfast.job import Claim, Details, higher
from standfast.lifecycle import Transition
from standfast.outcome import Lapsed
from standfast.rules import QueueRules
from standfast.spine.settle import age_reason
from standfast.spine.tell import tell
from standfast.store.store import Store
from standfast.wings.approvals.rules import filed
from standfast.wings.effects.handler_job import Job
from standfast.wings.policy.facts import Facts
from standfast.wings.policy.known_policy import KnownPolicy
from standfast.wings.policy.rules import Broken, Policy
from standfast.wings.policy.triage import PolicyNow, outlived
from standfast.wings.queues import ages
from standfast.worker import upkeep
from standfast.worker.ends import DecisionWriter, Key
from standfast.worker.settling import settle
from standfast.worker.upkeep import Expired, SweepRequest, SweepResult

log = logging.getLogger("standfast.worker")

_details = msgspec.json.Decoder(Details).decode


class Sweeper:
    """Any worker can sweep; each job is moved under its token, so that two sweepers do no harm."""

    def __init__(
        self,
        store: Store,
        sweep: SweepRequest,
        *,
        roll: Callable[[], float] = random.random,
        wait: Callable[[float], float] = lambda _lease: 0.0,
        dead: Callable[[], tuple[str, ...]] = tuple,
        report: Callable[[Job, Transition], None] = lambda _job, _end: None,
    ) -> None:
        self._store = store
        self._sweep = sweep
        self._roll = roll
        self._wait = wait
        """How long a worker must have been late before a job with this lease is taken from it."""
        self._dead = dead
        """The processes of this host known to be dead: nothing is gained by waiting before their jobs are taken."""
        self._report = report
        """Reports a lost attempt to the application."""
        self._late: dict[str, float] = {}
        self._unwritten: dict[Key, str | None] = {}
        """The decisions that the last sweep could not write, with the handler of each job that had been running."""
        self._policy = KnownPolicy()

    @property
    def unwritten(self) -> tuple[str, ...]:
        """The handlers, as queue/handler, of lost jobs whose end cannot be written."""
        return tuple(sorted(set(filter(None, self._unwritten.values()))))

    async def sweep(self) -> None:
        """Sweep until no job is left to decide about, except those whose decision cannot be written."""
        sweep = msgspec.structs.replace(self._sweep, dead=self._dead())
        unwritten: dict[Key, str | None] = {}
        while True:
            request = msgspec.structs.replace(sweep, limit=sweep.limit + len(unwritten))
            swept = await self._store.write(upkeep.sweep, request)
            while swept.ages_changed and await self._store.write(ages.restamp, None):
                pass
            present = PolicyNow(self._policy_now(swept), swept.now)
            found = [*self._lapsed(swept, present), *self._expired(swept, present)]
            decided = [end for end in found if (end.n, end.token) not in unwritten]
            if not decided:
                break
            unwritten |= await self._write(decided, swept)
        self._unwritten = unwritten

    async def _write(self, decided: list[Transition], swept: SweepResult) -> dict[Key, str | None]:
        """Write what was decided; return the decisions that cannot be written, with handlers as in `_unwritten`."""
        refused: list[tuple[Transition, BaseException]] = []
        writer = DecisionWriter(self._store, partial(self._tell, swept), lambda *each: refused.append(each))
        writer.write(decided)
        await writer.finish()
        for end, error in refused:
            if (end.n, end.token) not in self._unwritten:  # it is logged once, although every sweep tries again
                log.error("the end of job %s, %s, cannot be written", end.id, end.move, exc_info=error)
        running = {claim.n: f"{claim.queue}/{claim.handler}" for claim in swept.lapsed}
        return {(end.n, end.token): running.get(end.n) for end, _ in refused}

    def _tell(self, swept: SweepResult, decided: list[Transition], landed: list[bool]) -> None:
        """Tell of the lost attempts whose end is on disk."""
        claims = {claim.id: claim for claim in swept.lapsed}
        for end in compress(decided, landed):
            if (claim := claims.get(end.id)) is not None:
                tell(end, claim)
                self._report(Job(claim, swept.rules[claim.queue]), end)

    def _policy_now(self, swept: SweepResult) -> Policy | Broken:
        self._policy.learn(swept.policy)
        return self._policy.policy

    def _lapsed(self, swept: SweepResult, present: PolicyNow) -> list[Transition]:
        """Decide about the jobs of workers that had time to renew and did not.

        After an outage, a worker that could not reach the store looks lost to any sweeper for a moment.
        """
        self._late = {claim.worker: self._late.get(claim.worker, swept.now) for claim in swept.lapsed}
        found = []
        for claim in swept.lapsed:
            lost = swept.lost_worker_of(claim)
            waited = lost.certain or swept.now - self._late[claim.worker] >= self._wait(claim.lease)
            if waited and lost.company is not None:
                end = Lapsed(alone=lost.was_alone(claim))
                found.append(self._settle(claim, end, swept.rules[claim.queue], present))
        return found

    def _settle(self, claim: Claim, lapsed: Lapsed, rules: QueueRules, present: PolicyNow) -> Transition:
        end = settle(claim, lapsed, rules, self._roll(), present)
        return filed(end, self._store, handler=claim.handler, payload=claim.payload, details=claim.details)

    def _expired(self, swept: SweepResult, present: PolicyNow) -> list[Transition]:
        found = []
        for job in swept.expired:
            code = age_reason(job.entered_at, job.expires_at, job.max_age, swept.now)
            if code is not None:
                details = _details(job.details)
                end = outlived(job.job_ref, code, _facts(job, details, swept.now), self._roll(), present)
                found.append(filed(end, self._store, handler=job.handler, payload=job.payload, details=details))
        return found


def _facts(job: Expired, details: Details, now: float) -> Facts:
    return Facts(
        queue=job.queue,
        handler=job.handler,
        risk=higher(details.risk, job.handler_risk),
        labels=details.labels or {},
        attempts=job.attempts,
        replays=job.replays,
        age=max(0.0, now - job.first_seen_at),
        session=details.session,
        requester=details.requester,
        replay_mode=job.replay_mode or "replay",
    )
