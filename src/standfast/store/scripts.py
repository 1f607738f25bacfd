"""Each verb of the store as a script: a generator that yields named statements and is sent their rows. No I/O here.

One body serves every engine: SQLite's writer thread drives it inside a transaction shared with other callers,
PostgreSQL's runner awaits it. A script takes the items of all callers of one round and answers one result for each.
What it wants told goes into the `Round`, which becomes one journal row when the transaction closes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from typing import Any

import msgspec

from standfast.job import Claim, NewJob, Receipt
from standfast.lifecycle import FINAL, Move, State, Transition
from standfast.rules import DEFAULTS, QueueRules

Rows = list[tuple[Any, ...]]
Batch = Sequence[tuple[Any, ...]]
Step = tuple[str, dict[str, Any] | Batch]
"""A statement's name with its parameters, or with a batch of rows."""
Script = Generator[Step, Rows, Any]

DUE_PER_CLAIM = 500
"""How many delayed jobs one claim makes claimable; more wait for the next claim, so that none takes long."""
LONGEST_WAITING_EVERY = 10
"""Every tenth claim of a queue takes the longest-waiting job, whatever its priority."""

TOLD = {
    Move.COMPLETE: "completed",
    Move.RETRY: "retry",
    Move.SNOOZE: "snoozed",
    Move.GIVE_BACK: "given_back",
    Move.DIE: "dead_letter",
    Move.HOLD: "held",
    Move.REPLAY: "replayed",
    Move.RESOLVE: "resolved",
    Move.CANCEL: "cancelled",
}
"""The notice each move is told as."""
KEPT_IN_HISTORY = frozenset({Move.RETRY, Move.SNOOZE, Move.GIVE_BACK, Move.DIE, Move.HOLD})
"""The moves that end an attempt without completing it."""

_encode = msgspec.json.encode
_claims = msgspec.json.Decoder(list[Claim])
decode_numbers = msgspec.json.Decoder(list[int]).decode
_rules = msgspec.json.Decoder(QueueRules)
_states = msgspec.json.Decoder(list[str | None])


class Round:
    """One transaction: its time, what it tells, and which queues it gives work to."""

    def __init__(self, now: float, skew: float, boot: str) -> None:
        self.now = now
        self.skew = skew
        self.boot = boot
        self.told: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self.work: dict[str, float] = {}

    def tell(self, kind: str, queue: str, job_id: str) -> None:
        """Note what happened to a job, for the journal and the counters."""
        self.told[kind, queue].append(job_id)

    def work_in(self, queue: str, delay: float) -> None:
        """Note that a queue has work after so many seconds, so that workers wake in time."""
        if delay < self.work.get(queue, 9e99):
            self.work[queue] = max(0.0, delay)


class Conflict(msgspec.Struct, frozen=True):
    """The key belongs to a job with another payload."""

    job_id: str


class Want(msgspec.Struct, frozen=True):
    """So many jobs of one queue, for these handlers."""

    queue: str
    handlers: tuple[str, ...]
    slots: int


class Order(msgspec.Struct, frozen=True):
    """What one worker can start now."""

    worker: str
    wants: tuple[Want, ...]


class Catch(msgspec.Struct, frozen=True):
    """What a claim brought, the rules it was made under, and when more comes due."""

    claims: list[Claim]
    rules: dict[str, QueueRules]
    next_due: float | None


class Publication(msgspec.Struct, frozen=True):
    """What a process declares."""

    queues: dict[str, QueueRules]
    handlers: Sequence[msgspec.Struct]


def text(value: Any) -> str:
    """Encode a batch as the one JSON text that crosses into the engine."""
    return _encode(value).decode()


def close(round_: Round) -> Script:
    """Write the round's journal row and counters; the last statements of every transaction."""
    if not round_.told:
        return
    entries = [(kind, queue, ids) for (kind, queue), ids in round_.told.items()]
    yield "write_journal", {"now": round_.now, "entries": text(entries)}
    yield "add_counters", {"counts": text([(queue, kind, len(ids)) for kind, queue, ids in entries])}


def enqueue(round_: Round, jobs: Sequence[NewJob]) -> Script:
    """Store new jobs; answer a Receipt or a Conflict for each."""
    answers = yield from _settle_keys(round_, [job for job in jobs if job.idempotency_key is not None])
    fresh = [job for job in jobs if job.id not in answers] if answers else jobs
    if fresh:
        yield from _insert(round_, fresh)
    return [answers.get(job.id) or Receipt(job.id, "accepted", State.QUEUED) for job in jobs]


def _settle_keys(round_: Round, keyed: Sequence[NewJob]) -> Generator[Step, Rows, dict[str, Receipt | Conflict]]:
    """Find the keyed jobs that are already here, by the unique index alone."""
    if not keyed:
        return {}
    keys = [(job.queue, job.idempotency_key, job.id, job.fingerprint, round_.now) for job in keyed]
    yield "take_keys", keys
    owners = yield "key_owners", {"keys": text(keys)}
    prints = {job.id: job.fingerprint for job in keyed}
    return {
        job_id: Receipt(owner, "duplicate", state) if fingerprint == prints[job_id] else Conflict(owner)
        for job_id, owner, fingerprint, state in owners
        if owner != job_id
    }


def _insert(round_: Round, jobs: Sequence[NewJob]) -> Script:
    defaults = yield from _queue_defaults({job.queue for job in jobs})
    [(first,)] = yield "next_number", {}
    bodies = [
        (n, job.id, job.payload, job.idempotency_key, job.details, round_.now) for n, job in enumerate(jobs, first)
    ]
    [(inserted,)] = yield "insert_bodies", bodies
    rows = [_job_row(round_, n, job, *defaults[job.queue]) for n, job in enumerate(jobs, first)]
    if inserted < len(jobs):  # some came before, with a commit nobody knew of
        here = {n for (n,) in (yield "numbers_from", {"first": first})}
        rows = [row for row in rows if row[0] in here]
    if rows:
        yield "insert_jobs", rows


def _queue_defaults(queues: set[str]) -> Generator[Step, Rows, dict[str, tuple[int | None, float | None]]]:
    """Read priority and max_age of each queue; a queue nobody declared is written down with neither."""
    known = yield "known_queues", {"queues": text(list(queues))}
    defaults = {name: (priority, max_age) for name, priority, max_age in known}
    if len(defaults) < len(queues):
        yield "ensure_queues", {"queues": text(list(queues))}
    return {queue: defaults.get(queue, (None, None)) for queue in queues}


def _job_row(round_: Round, n: int, job: NewJob, priority: int | None, max_age: float | None) -> tuple[Any, ...]:
    """Lay a job out as its hot row, and tell of it. Wall times become queue times here."""
    now = round_.now
    due_at = now + job.delay if job.at is None else max(now, job.at - round_.skew)
    round_.tell("enqueued", job.queue, job.id)
    round_.work_in(job.queue, due_at - now)
    limits = [job.expires - round_.skew] if job.expires is not None else []
    if max_age is not None:
        limits.append(now + max_age)
    return (
        n,
        job.queue,
        job.handler,
        job.priority if job.priority is not None else priority or 0,
        State.QUEUED,
        due_at,
        now if due_at <= now else None,
        now,
        job.budget,
        job.lease,
        min(limits, default=None),
    )


def claim(round_: Round, orders: Sequence[Order]) -> Script:
    """Give each worker what it can start now, in the order of `decide.priority`."""
    yield "promote_due", {"now": round_.now, "limit": DUE_PER_CLAIM}
    catches = []
    for order in orders:
        claims, rules = yield from _fill(round_, order)
        catches.append((claims, rules))
    [(next_due,)] = yield "next_due", {}
    later = None if next_due is None else max(0.0, next_due - round_.now)
    return [Catch(claims, rules, later) for claims, rules in catches]


def _fill(round_: Round, order: Order) -> Generator[Step, Rows, tuple[list[Claim], dict[str, QueueRules]]]:
    queues = [want.queue for want in order.wants]
    known = yield "queue_rules", {"queues": text(queues)}
    open_queues = {name: claims for name, _, paused, claims in known if not paused}
    rules = _read_rules(queues, known)
    claims: list[Claim] = []
    for want in order.wants:
        if want.queue in open_queues:
            claims += yield from _claim_queue(round_, order.worker, want, rules[want.queue], open_queues[want.queue])
    return claims, rules


def rules_in_force(queues: Iterable[str]) -> Generator[Step, Rows, dict[str, QueueRules]]:
    """Read the published rules of these queues; the defaults where nobody declared any."""
    known = yield "queue_rules", {"queues": text(list(queues))}
    return _read_rules(queues, known)


def _read_rules(queues: Iterable[str], known: Rows) -> dict[str, QueueRules]:
    published = {name: rules for name, rules, *_ in known}
    return {name: _rules.decode(published[name]) if published.get(name) else DEFAULTS for name in queues}


def _claim_queue(
    round_: Round, worker: str, want: Want, rules: QueueRules, already: int
) -> Generator[Step, Rows, list[Claim]]:
    """Take the longest-waiting for every tenth claim this makes, then the best for the rest."""
    every = LONGEST_WAITING_EVERY
    tenths = (already + want.slots) // every - already // every
    numbers = yield from _take(round_, worker, want, rules, wanted=tenths, oldest=True)
    if len(numbers) == tenths:
        numbers += yield from _take(round_, worker, want, rules, wanted=want.slots - tenths, oldest=False)
    if not numbers:
        return []
    yield "count_claims", {"queue": want.queue, "claims": len(numbers), "now": round_.now}
    claims = yield from held_claims(numbers)
    for job in claims:
        round_.tell("claimed", job.queue, job.id)
    return claims


def _take(
    round_: Round, worker: str, want: Want, rules: QueueRules, *, wanted: int, oldest: bool
) -> Generator[Step, Rows, list[int]]:
    if not wanted:
        return []
    lanes = {"queue": want.queue, "handlers": text(want.handlers), "wanted": wanted, "oldest": oldest}
    boost = {"boost": rules.age_boost, "boost_cap": rules.age_boost_cap, "now": round_.now}
    [(numbers,)] = yield "claim_numbers", {**lanes, **boost}
    if numbers == "[]":
        return []
    [(modes, timeouts)] = yield "handler_stamps", {"queue": want.queue}
    stamps = {"attempts": rules.attempts, "lease": rules.lease, "timeout": rules.timeout}
    taken = {"numbers": numbers, "worker": worker, "now": round_.now}
    yield "take_jobs", {**taken, **stamps, "modes": modes, "timeouts": timeouts}
    return decode_numbers(numbers)


def held_claims(numbers: Iterable[int]) -> Generator[Step, Rows, list[Claim]]:
    """Read running jobs as their worker holds them."""
    [(claims,)] = yield "held_claims", {"numbers": text(list(numbers))}
    return _claims.decode(claims)


def apply(round_: Round, transitions: Sequence[Transition]) -> Script:
    """Move jobs as decided: the one script that applies every Transition. Answer for each whether it landed.

    A death, its reason, its triage, its history line and its notice are in this one transaction.
    """
    standing = yield from _standing(transitions)
    pairs = list(zip(transitions, standing, strict=True))
    movable = [transition for transition, state in pairs if state == transition.source]
    if movable:
        yield "move_jobs", [_move(round_.now, transition) for transition in movable]
        yield from _write_down(round_, movable)
    return [state in (transition.source, transition.target) for transition, state in pairs]


def _standing(transitions: Sequence[Transition]) -> Generator[Step, Rows, list[str | None]]:
    """Read the state of each job that still has the mover's token; None where the token has moved on.

    A job that already stands where its move leads was moved before an unknown commit: that counts as landed.
    """
    [(states,)] = yield "standing_states", {"held": text([(each.n, each.token) for each in transitions])}
    return _states.decode(states)


def _move(now: float, transition: Transition) -> tuple[Any, ...]:
    target, delay = transition.target, transition.delay
    to_queue = target == State.QUEUED
    due_at = now + delay if to_queue else None
    ready_at = now if to_queue and delay <= 0 else None
    finished_at = None if to_queue else now
    counts = (transition.spends, transition.defers)
    return (transition.n, transition.token, target, due_at, ready_at, finished_at, *counts)


def _write_down(round_: Round, moved: Sequence[Transition]) -> Script:
    """Write what the moves leave behind: endings, history, freed keys, notices."""
    for transition in moved:
        round_.tell(TOLD[transition.move], transition.queue, transition.id)
        if transition.target == State.QUEUED:
            round_.work_in(transition.queue, transition.delay)
    endings = [_ending(transition) for transition in moved if _leaves_ending(transition)]
    if endings:
        yield "write_endings", endings
    lines = [_line(round_, transition) for transition in moved if transition.move in KEPT_IN_HISTORY]
    if lines:
        yield "write_history", lines
    final = [transition.n for transition in moved if transition.target in FINAL]
    if final:
        yield "release_keys", {"numbers": text(final), "now": round_.now, "keep_keys": DEFAULTS.keep_keys}


def _leaves_ending(transition: Transition) -> bool:
    return bool(transition.result or transition.warning or transition.triage)


def _ending(transition: Transition) -> tuple[Any, ...]:
    failure = transition.failure and text(transition.failure)
    triage = transition.triage and text(transition.triage)
    return (transition.n, transition.result, transition.warning, failure, triage)


def _line(round_: Round, transition: Transition) -> tuple[int, str]:
    line: dict[str, Any] = {"attempt": transition.attempt, "at": round_.now, "worker": transition.worker}
    if transition.failure is not None:
        line |= msgspec.to_builtins(transition.failure)
        del line["advice"]
    else:
        line["reason_code"] = TOLD[transition.move]
    if transition.target == State.QUEUED:
        line["delay"] = transition.delay
    if transition.possible_duplicate:
        line["possible_duplicate"] = True
    return (transition.n, text(line))


def publish(round_: Round, publications: Sequence[Publication]) -> Script:
    """Put declarations in force for every process: the last published wins."""
    for publication in publications:
        yield "publish_queues", {"queues": text(publication.queues), "now": round_.now}
        yield "restamp_expiry", {"now": round_.now}
        yield "publish_handlers", {"handlers": text(publication.handlers), "now": round_.now}
    return [None] * len(publications)
