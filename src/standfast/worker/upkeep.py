"""Scripts that keep the store in order: heartbeats, sweeping, pruning. Any worker can run them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from standfast.job import Claim, Risk
from standfast.lifecycle import JobRef, State
from standfast.rules import DEFAULTS, QueueRules, ReplayMode
from standfast.spine.claim import decode_numbers, handler_stamps, held_claims, rules_in_force, with_risks
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text
from standfast.wings.alerts import scripts as alerts
from standfast.wings.consent import scripts as consents
from standfast.wings.health import timings
from standfast.wings.health.counting import forget_counts, sum_up
from standfast.wings.health.timings import Counted
from standfast.wings.letters import scripts as letters
from standfast.wings.limits import scripts as limits
from standfast.wings.notices.scripts import number_journal
from standfast.wings.policy.scripts import StoredPolicy, stored_policy
from standfast.wings.queues import ages
from standfast.wings.records import reads
from standfast.wings.redrives import scripts as redrives
from standfast.wings.relay.outbox_marks import KEPT as OUTBOX_KEPT
from standfast.wings.relay.outbox_marks import OUTBOX
from standfast.wings.schedules import scripts as schedules
from standfast.wings.sessions import scripts as sessions
from standfast.wings.workflows import graphs
from standfast.worker.lost_workers import LostWorker, note_lost

SKEW = "skew"
"""The mark of this name holds how far wall time was ahead of queue time at the last look, rather than a time."""
JUMPED = "clock jumped"
LARGEST_SKEW = 60.0
"""Seconds by which wall time may move between two sweeps before it counts as a jump."""
NO_JUMP = 1.0
FORGOTTEN = "forgotten "
"""Followed by a queue's name: the name of the mark for when that queue was forgotten."""
IDLE = 3600.0
"""Seconds without a claim after which an empty, undeclared queue is forgotten."""
MOST_UNINDEXED = 10_000
"""The most jobs that are read one by one to see which queues they are in."""
BLOCKED = "blocked "
"""Followed by worker and queue/handler: the name of the mark for when that handler last blocked the event loop."""
MARKS_KEPT = 3600.0
"""Seconds after which a mark that names a worker is forgotten: workers come and go."""
UNWRITTEN = "unwritten "
"""Followed by queue/handler: the name of the mark that a worker holds a job whose end cannot be written."""

UNSTARTED = "unstarted "
"""Followed by queue/handler and the reason: the name of the mark that no process can be started for that handler."""


class HeldJob(NamedTuple):
    """A running job that the store says a worker holds."""

    n: int
    token: int
    id: str
    queue: str
    gate: str | None
    cancelling: int

    @property
    def job_ref(self) -> JobRef:
        """The job's current state, for a decision about it."""
        return JobRef(self.n, self.token, self.id, self.queue, State.RUNNING, self.gate)


class Beat(NamedTuple):
    """When a heartbeat reached the store, and which jobs its worker held there at that moment."""

    at: float
    held: list[HeldJob]
    requested_at: float = math.inf
    """When the worker requested it, by `time.monotonic`: jobs it got since then may be missing here."""


class Expired(NamedTuple):
    """A queued job that waited too long."""

    n: int
    token: int
    id: str
    queue: str
    gate: str | None
    entered_at: float
    expires_at: float
    max_age: float | None
    handler: str
    payload: str
    details: str
    attempts: int
    first_seen_at: float
    replays: int
    handler_risk: Risk | None
    replay_mode: ReplayMode | None

    @property
    def job_ref(self) -> JobRef:
        """The job's current state, for a decision about it."""
        return JobRef(self.n, self.token, self.id, self.queue, State.QUEUED, self.gate)


class WorkerCard(msgspec.Struct, frozen=True):
    """What a worker tells about itself. `declares` is JSON text: queue or queue/handler → its declared rules.

    `blocked_by` names the handler that blocks its event loop, if one does. `counted` is how long jobs waited and
    attempts took, for the queues where that has changed.
    """

    id: str
    host: str
    pid: int
    queues: str
    declares: str
    blocked_by: str | None = None
    counted: Counted | None = None
    process: str | None = None
    """The name of the lock that its process holds, if any."""
    unwritten: tuple[str, ...] = ()
    """The handlers, as queue/handler, of jobs whose end this worker could not write."""
    unstarted: tuple[str, ...] = ()
    """The handlers, as queue/handler, for which this worker cannot start a process, each with the reason."""


@writes()
def beat(round_: Round, workers: Sequence[WorkerCard]) -> Script[list[Beat]]:
    """Renew every lease of a worker by writing one row; return which jobs the store says it holds now."""
    answers = []
    for worker in workers:
        card = msgspec.structs.asdict(worker)
        blocked_by, counted, unwritten = card.pop("blocked_by"), card.pop("counted"), card.pop("unwritten")
        unstarted = card.pop("unstarted")
        yield "beat", {**card, "boot": round_.boot, "now": round_.now}
        if blocked_by is not None:
            yield "forget_marks", {"mark": BLOCKED, "before": round_.now - MARKS_KEPT}
            yield "mark_upkeep", {"name": f"{BLOCKED}{worker.id} {blocked_by}", "now": round_.now}
        for handler in unwritten:
            yield "mark_upkeep", {"name": f"{UNWRITTEN}{handler}", "now": round_.now}
        if unstarted:
            yield "forget_marks", {"mark": UNSTARTED, "before": round_.now - MARKS_KEPT}
        for said in unstarted:
            yield "mark_upkeep", {"name": f"{UNSTARTED}{said}", "now": round_.now}
        if counted is not None:
            yield from timings.write(counted)
        held = yield "held_by_worker", {"id": worker.id}
        answers.append(Beat(round_.now, [HeldJob(*row) for row in held]))
    return answers


@writes()
def retire(_round: Round, workers: Sequence[Counted]) -> Script[list[None]]:
    """Remove a worker from the list; one that still holds jobs stays, so that their leases lapse in time."""
    for worker in workers:
        yield from timings.write(worker)
    yield "retire_workers", {"workers": text([worker.owner for worker in workers])}
    return [None] * len(workers)


class SweepRequest(msgspec.Struct, frozen=True):
    """How often this store is swept, and how long a sweeper waits after a gap before it reclaims jobs."""

    every: float
    patience: float
    limit: int = 200
    dead: tuple[str, ...] = ()
    """The processes known to be dead, by the names of their locks."""


class SweepResult(msgspec.Struct, frozen=True):
    """What a sweep found: jobs whose worker is lost, and jobs too old to start."""

    lapsed: list[Claim]
    expired: list[Expired]
    rules: dict[str, QueueRules]
    now: float
    policy: StoredPolicy | None = None
    """The policy in force, if anything was found."""
    ages_changed: bool = False
    """Whether some jobs still expire by earlier rules."""
    lost_workers: dict[str, LostWorker] = {}
    """What is known of the workers that held the lapsed jobs."""

    def lost_worker_of(self, claim: Claim) -> LostWorker:
        """Return what is known of the worker that held a job; an unknown worker is judged by the jobs that lapsed."""
        held = sum(each.worker == claim.worker for each in self.lapsed)
        return self.lost_workers.get(claim.worker) or LostWorker(claim.worker, held, held)


@writes()
def sweep(round_: Round, sweeps: Sequence[SweepRequest]) -> Script[list[SweepResult]]:
    """Find the jobs that need a decision. After a gap in the sweeping, no job is reclaimed for one full beat.

    A gap means that the machine slept or the store was away: live workers must be able to renew first.
    """
    answers = []
    for sweep_ in sweeps:
        times: dict[str, float] = dict((yield "upkeep_times", {}))
        yield "mark_upkeep", {"name": "sweep", "now": round_.now}
        yield from _note_clock(round_, times)
        gap = round_.now - times.get("sweep", 0.0) > sweep_.every * 3
        if gap:
            yield "mark_upkeep", {"name": "resume", "now": round_.now}
        reclaim = not gap and round_.now - times.get("resume", 0.0) > sweep_.patience
        yield from number_journal(round_, ())
        yield from sum_up(round_, ())
        found = yield from _find(round_, sweep_, reclaim=reclaim)
        answers.append(msgspec.structs.replace(found, ages_changed=ages.marked(times)))
        yield from limits.ask_to_mend(round_)
    return answers


def _note_clock(round_: Round, times: dict[str, float]) -> Script[None]:
    """Note when the wall clock jumped, and how far it is now ahead of queue time."""
    before = times.get(SKEW)
    if before is not None and abs(round_.skew - before) > LARGEST_SKEW:
        yield "mark_upkeep", {"name": JUMPED, "now": round_.now}
    if before is None or abs(round_.skew - before) > NO_JUMP:
        yield "mark_upkeep", {"name": SKEW, "now": round_.skew}


def _find(round_: Round, sweep_: SweepRequest, *, reclaim: bool) -> Script[SweepResult]:
    limits = {"now": round_.now, "limit": sweep_.limit}
    dead = text(sweep_.dead)
    [(numbers,)] = yield "lapsed_numbers", {**limits, "boot": round_.boot, "reclaim": reclaim, "dead": dead}
    lapsed = yield from _with_risks((yield from held_claims(round_, decode_numbers(numbers), since=0)))
    expired = yield "expired_jobs", limits
    rules = yield from rules_in_force({claim.queue for claim in lapsed})
    policy = (yield from stored_policy()) if lapsed or expired else None
    found = SweepResult(lapsed, [Expired(*row) for row in expired], rules, round_.now, policy)
    if not lapsed and not sweep_.dead:
        return found
    return msgspec.structs.replace(
        found, lost_workers=(yield from note_lost(round_, {job.worker for job in lapsed}, dead))
    )


def _with_risks(claims: list[Claim]) -> Script[list[Claim]]:
    """Add to claims of any queues how risky their handlers are."""
    found: list[Claim] = []
    for queue in {claim.queue for claim in claims}:
        stamps = yield from handler_stamps(queue)
        found += with_risks([claim for claim in claims if claim.queue == queue], stamps)
    return found


def _forget_queues(now: float, limit: int) -> Script[None]:
    """Forget undeclared, unused queues: callers made up their names."""
    yield "return_queues", {}
    yield "delete_forgotten", {"before": now - IDLE}
    gone = yield "forget_queues", {"before": now - IDLE, "limit": limit, "most": MOST_UNINDEXED}
    for (name,) in gone:
        yield "mark_upkeep", {"name": f"{FORGOTTEN}{name}", "now": now}


class PruneRequest(msgspec.Struct, frozen=True):
    """How many rows one pruning may delete, and how long each kind is kept."""

    limit: int = 1000
    keep_journal: float = 86400.0
    keep_workers: float = 3600.0
    keep_aliases: float = 30 * 86400.0
    """How long after a job was delivered it is recognised if it is delivered again, even if the job is long gone."""
    keep_former_letters: float = 365 * 86400.0
    """How long a letter that has ended and is gone is recognised by an import that would bring it back."""
    keep_messages: float = 7 * 86400.0
    """How long a session's message is kept after it was read."""
    keep_unread: float = 90 * 86400.0
    """How long an unread message is kept."""


@writes()
def prune(round_: Round, prunes: Sequence[PruneRequest]) -> Script[list[bool]]:
    """Delete a bounded number of rows that are no longer needed; return whether the bound was reached."""
    answers = []
    for prune_ in prunes:
        now, limit = round_.now, prune_.limit
        keep = {"keep_completed": DEFAULTS.keep_completed}
        yield "mark_upkeep", {"name": "prune", "now": now}  # first: only one worker prunes at a time
        [(numbers,)] = yield "prunable_numbers", {"now": now, "limit": limit, **keep}
        if numbers != "[]":
            yield from reads.delete_whole(round_, numbers)
        evicted = max((yield from letters.evict(round_, limit)), (yield from graphs.prune(round_, limit)))
        [(keys,)] = yield "delete_keys", {"now": now, "limit": limit}
        [(rows,)] = yield "delete_journal", {"before": now - prune_.keep_journal, "limit": limit}
        redrives_left = yield from redrives.prune(now, limit)
        yield from schedules.prune(now, limit)
        yield from sessions.prune(now, limit, prune_.keep_messages, prune_.keep_unread)
        yield from consents.prune(now, limit)
        yield "delete_sessions", {"now": now, "limit": limit}
        yield from _forget_queues(now, limit)
        yield from alerts.prune(now, limit)
        [(tallies,)] = yield "delete_workers", {"before": now - prune_.keep_workers, "limit": limit}
        yield from timings.fold()
        yield "delete_aliases", {"before": now - prune_.keep_aliases, "limit": limit}
        yield "delete_former_letters", {"before": now - prune_.keep_former_letters, "limit": limit}
        yield "forget_marks", {"mark": OUTBOX, "before": now - OUTBOX_KEPT}
        uncounted = yield from forget_counts(limit)
        found = max(len(decode_numbers(numbers)), evicted, keys, rows, tallies, uncounted)
        answers.append(redrives_left or found >= limit)
    return answers
