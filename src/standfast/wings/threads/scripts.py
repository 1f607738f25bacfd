"""Threads: jobs that belong together never run at the same time, and unclaimed ones can be folded into one job.

Of a thread's due jobs, only the one that holds the gate is claimable; the others are parked on the gate, outside the
claim's index. The holder keeps the gate while it runs and between its attempts. When it ends, the gate goes to the
oldest parked job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from standfast.failure import Landed
from standfast.job import HTTP, Coalesced, Details, Folded, NewJob
from standfast.lifecycle import Move, NoticeKind, State, Transition
from standfast.rules import Coalesce, QueueRules
from standfast.spine.claim import rules_in_force
from standfast.spine.intake import first_seen
from standfast.spine.riders import Marks
from standfast.store.steps import Round, Script, text
from standfast.wings.threads.words import MOST_REQUESTERS, SupersededBy, folded, folded_under

SAME_TIME = 0.25
"""Seconds by which the clocks of two hosts may differ: within them, the job stored later counts as newer."""
KEPT = 50
"""How many of the jobs folded into one are remembered one by one; all are counted."""
NO_CALLERS = "\u00a0"
"""A space that is not printable, so that no caller's key has it."""
TICKS = f"ticks of{NO_CALLERS}"
"""Followed by a schedule's name: the thread that its ticks share."""
EVERY_TICK = f"every tick of{NO_CALLERS}"
"""The same, if no tick may be folded into another."""
IN_ORDER = f"in order{NO_CALLERS}"
"""Followed by one alert and one surface: the thread of all messages about it to that surface, in order."""
LARGEST_COLLECTION = 256 * 1024
"""The most bytes of payload that are collected into one job; a later payload begins another one."""

_read_details = msgspec.json.Decoder(Details).decode


class Member(NamedTuple):
    """An unfinished job of a thread."""

    n: int
    token: int
    id: str
    handler: str
    state: str
    priority: int
    landed: str | None
    first_seen_at: float
    parked_on: str | None
    asked_expiry: float | None
    coalesced: str | None
    created_at: float
    details: str

    @property
    def word_of(self) -> float:
        """When its present payload was accepted."""
        folded = msgspec.json.decode(self.coalesced, type=Coalesced)["last"] if self.coalesced else []
        return max((self.created_at, *(each["at"].timestamp() for each in folded)))


def gate_of(queue: str, thread_key: str) -> str:
    """Return the gate of a thread. No two threads share one, whatever colons their names contain."""
    queue = queue.replace("%", "%25").replace(":", "%3A")
    return f"thread:{queue}:{thread_key}"


def mode_of(job: NewJob, rules: QueueRules) -> Coalesce:
    """Return how a new job enters its thread. Requests are not collected: a list of requests is not a request."""
    mode = mode_in(gate_of(job.queue, job.thread_key or ""), job.details, rules)
    return "never" if mode == "collect" and job.handler == HTTP else mode


def mode_in(gate: str, details: str, rules: QueueRules) -> Coalesce:
    """Return how a job meets the others of its thread: as its caller says, otherwise as its queue says.

    Some threads keep every job. With `newest_counts` the job folds, unless its queue collects.
    """
    if f":{EVERY_TICK}" in gate or f":{IN_ORDER}" in gate:
        return "never"
    said = _read_details(details)
    folds = said.newest_counts and rules.coalesce == "never"
    return said.coalesce or ("latest" if folds else rules.coalesce)


def agreeing(found: Iterable[Member], mode: Coalesce, gate: str, rules: QueueRules) -> list[Member]:
    """Return the jobs of a thread that meet others in the same way: a job that must be kept is never folded."""
    return [each for each in found if mode_in(gate, each.details, rules) == mode]


def gates_of(jobs: Iterable[NewJob]) -> list[str]:
    """Return the gates of the threads that new jobs join."""
    return [gate_of(job.queue, job.thread_key) for job in jobs if job.thread_key is not None]


def lock(round_: Round, gates: Iterable[str]) -> Script[None]:
    """Keep all other transactions out of these threads, and lock them in the order that every transaction uses.

    Gates come before rows: a transaction that waits for a gate holds no row that the gate's holder could want.
    """
    wanted = set(gates) - round_.gates
    if wanted:
        yield "lock_gates", {"gates": text(sorted(wanted))}
        round_.gates |= wanted


def lock_names(round_: Round, jobs: Iterable[NewJob], gates: Iterable[str]) -> Script[None]:
    """Lock the threads that new jobs join, and other gates that a round needs."""
    yield from lock(round_, [*gates_of(jobs), *gates])


def members(gate: str, mode: Coalesce) -> Script[list[Member]]:
    """Read the unfinished jobs of a thread, oldest first. If every job is kept, they do not matter."""
    if mode == "never":
        return []
    return [Member(*row) for row in (yield "thread_members", {"gate": gate})]


def bearer(found: Iterable[Member], job_id: str) -> Member | None:
    """Return the job that this one was already folded into, by a commit that was not acknowledged."""
    marker = f'"by":"{job_id}"'
    return next((each for each in found if each.coalesced and marker in each.coalesced), None)


def carrier(found: Sequence[Member], alike: Sequence[Member], job: NewJob) -> Member | None:
    """Return the newest job that a new one can still be folded into: same handler, never claimed.

    If the newest must be kept, return None: folding into an older one would put the new job before it.
    """
    newest = reversed(found)
    fitting = (each for each in newest if not each.token and each.state == State.QUEUED and each.handler == job.handler)
    into = next(fitting, None)
    return into if into in alike else None


def newer(found: Sequence[Member], job: NewJob, mode: Coalesce, round_: Round) -> Member | None:
    """Return the job that has already replaced a late one: accepted after it, but stored before it."""
    if mode != "latest" or not round_.late:
        return None
    after = round_.now + SAME_TIME
    return next((each for each in reversed(found) if each.handler == job.handler and each.word_of > after), None)


def collected(job: NewJob) -> NewJob:
    """Turn a new job into a collection of one. It is marked as such: the queue's rules may change while it waits."""
    details = msgspec.structs.replace(_read_details(job.details), collected=True)
    return msgspec.structs.replace(job, payload=f"[{job.payload}]", details=text(details))


def _joined(held: str, old_details: str, collection: str) -> str:
    """Append a collection to a waiting payload; a payload from before the queue collected becomes its first item."""
    first = held if _read_details(old_details).collected else f"[{held}]"
    return f"{first[:-1]},{collection[1:]}"


def fold(round_: Round, into: Member, job: NewJob, mode: Coalesce) -> Script[bool]:
    """Fold a new job into a waiting one: payload and key replace (or join) the old ones. Return False if that fails.

    It fails if the result would be too big, or if the handler needs consent and the sessions differ.
    """
    [(held, old_key, old_details)] = yield "body_of", {"n": into.n}
    newcomer = _read_details(job.details)
    details = folded(_read_details(old_details), newcomer)
    if details.session != newcomer.session and (yield from _asks_consent(job)):
        return False  # a payload must not run under the consent that another session gave
    if len(details.requesters) > MOST_REQUESTERS:
        return False
    payload = job.payload if mode == "latest" else _joined(held, old_details, job.payload)
    if mode == "collect" and len(payload.encode()) > LARGEST_COLLECTION:
        return False
    known = msgspec.json.decode(into.coalesced, type=Coalesced) if into.coalesced else Coalesced(count=0, last=[])
    last = [*known["last"], _replaced(round_, job.id, held, old_key, old_details)]
    coalesced = text(Coalesced(count=known["count"] + 1, last=last[-KEPT:]))
    body = {"payload": payload, "key": job.idempotency_key, "details": text(details), "coalesced": coalesced}
    yield "fold_body", {"n": into.n, **body}
    own = first_seen(round_, job)
    if own is not None and own < into.first_seen_at:
        yield "date_bodies", [(into.n, own)]
    yield from _hasten(round_, into, job, _expiry(round_, into, job, mode))
    yield from _taken_in(round_, into, job)
    return True


def _asks_consent(job: NewJob) -> Script[bool]:
    """Return whether a job's handler runs only for sessions that consented."""
    return bool((yield "asks_consent", {"queue": job.queue, "handler": job.handler}))


def _hasten(round_: Round, into: Member, job: NewJob, expiry: float | None) -> Script[None]:
    """Make a waiting job at least as urgent and as early as the job folded into it."""
    due = round_.due_at(job.delay, job.at)
    yield "fold_job", {"n": into.n, "priority": job.priority, "due_at": due, "asked_expiry": expiry}
    if due <= round_.now and into.parked_on is None:
        yield "promote_job", {"n": into.n}
        yield from join(into.n, gate_of(job.queue, job.thread_key or ""), due=True)
    round_.note_work(job.queue, due - round_.now)


def _taken_in(round_: Round, into: Member, job: NewJob) -> Script[None]:
    """Let a job take over the key and the id of the job folded into it, and record that in the journal."""
    for key in (job.idempotency_key, job.body_key):
        if key is not None:
            yield "hand_key_over", {"queue": job.queue, "key": key, "id": into.id}
    yield "alias_folded", {"id": job.id, "owner": into.id, "now": round_.now}
    round_.notices[NoticeKind.COALESCED, job.queue].append(into.id)


def fold_under(round_: Round, into: Member, job: NewJob) -> Script[None]:
    """Fold a late job into a newer one, which keeps its payload and key, as if both had come in order."""
    [(held, key, old_details)] = yield "body_of", {"n": into.n}
    details = text(folded_under(_read_details(old_details), _read_details(job.details)))
    known = msgspec.json.decode(into.coalesced, type=Coalesced) if into.coalesced else Coalesced(count=0, last=[])
    last = [_replaced(round_, job.id, job.payload, job.idempotency_key, job.details), *known["last"]]
    coalesced = text(Coalesced(count=known["count"] + 1, last=last[-KEPT:]))
    yield "fold_body", {"n": into.n, "payload": held, "key": key, "details": details, "coalesced": coalesced}
    first_seen_at = min(into.first_seen_at, first_seen(round_, job) or round_.now)
    yield "enter_thread", {"n": into.n, "thread_key": job.thread_key, "first_seen_at": first_seen_at}
    if into.state == State.QUEUED and not into.token:
        yield from _hasten(round_, into, job, into.asked_expiry)
    yield from _taken_in(round_, into, job)


def _replaced(round_: Round, by: str, payload: str, key: str | None, details: str) -> Folded:
    entry = Folded(
        at=datetime.fromtimestamp(round_.now + round_.skew, UTC),
        by=by,
        sha256=hashlib.sha256(payload.encode()).hexdigest(),
    )
    if key is not None:
        entry["key"] = key
    trigger = (_read_details(details).labels or {}).get("trigger")
    if trigger is not None:
        entry["trigger"] = trigger
    return entry


def _expiry(round_: Round, into: Member, job: NewJob, mode: Coalesce) -> float | None:
    """Return the expiry of the combined job: the new job's own, or the latest of all that were collected."""
    expires = None if job.expires is None else job.expires - round_.skew
    if mode == "latest" or expires is None or into.asked_expiry is None:
        return expires if mode == "latest" else None
    return max(expires, into.asked_expiry)


def superseded(found: Iterable[Member], job: NewJob, mode: Coalesce, gate: str) -> list[Transition]:
    """Cancel jobs that wait for a repeat in favour of a new one, unless their effect may exist."""
    if mode != "latest":
        return []
    return [
        Transition(
            *(each.n, each.token, each.id, job.queue, Move.CANCEL, State.QUEUED),
            gate=gate,
            carries=(SupersededBy(job.id),),
        )
        for each in found
        if each.state == State.QUEUED and each.token and each.handler == job.handler and each.landed != Landed.MAYBE
    ]


def join(n: int, gate: str, *, due: bool) -> Script[None]:
    """Let a job join its thread: it takes the free gate or is parked on it; a job that is not due yet does neither."""
    parked = None
    if due:
        holders = yield "gate_holder", {"gate": gate}
        if not holders:
            yield "take_gate", {"gate": gate, "n": n}
        elif holders[0][0] != n:
            parked = gate
    yield "join_thread", {"n": n, "gate": gate, "parked_on": parked}


def admit_due(round_: Round, limit: int) -> Script[int]:
    """Let jobs that have become due join their threads; return how many there were.

    Jobs of a locked thread are left for later.
    """
    rows = yield "due_in_threads", {"now": round_.now, "limit": limit}
    for n, gate in rows:
        if (yield "try_gate", {"gate": gate}) == [(False,)]:
            continue
        [(promoted,)] = yield "promote_job", {"n": n}
        if promoted:  # otherwise it has ended since
            yield from join(n, gate, due=True)
    return len(rows)


def release(round_: Round, moved: Sequence[Transition], _marks: Marks) -> Script[None]:
    """Hand the gates of jobs that left their threads to the oldest jobs parked there."""
    for each in moved:
        if each.gate is None:
            continue
        if each.target == State.QUEUED:
            yield from join(each.n, each.gate, due=each.delay <= 0)
            continue
        holders = yield "gate_holder", {"gate": each.gate}
        if holders and holders[0][0] == each.n:
            yield from _hand_on(round_, each.gate)


def _hand_on(round_: Round, gate: str) -> Script[None]:
    waiting = yield "next_parked", {"gate": gate}
    if not waiting:
        yield "drop_gate", {"gate": gate}
        return
    [(n, queue)] = waiting
    yield "hand_gate", {"gate": gate, "n": n}
    yield "unpark_job", {"n": n, "now": round_.now}
    round_.note_work(queue, 0.0)


def lock_moved(round_: Round, transitions: Sequence[Transition]) -> Script[None]:
    """Lock the threads of jobs that are to move."""
    yield from lock(round_, (each.gate for each in transitions if each.gate is not None))


def make_way(decided: list[Transition]) -> Script[list[Transition]]:
    """Cancel jobs that would return to their queues if a newer job of their thread replaces them."""
    for place, each in enumerate(decided):
        if each.gate is not None and each.target == State.QUEUED:
            rules = yield from rules_in_force([each.queue])
            decided[place] = yield from unless_superseded(each, rules[each.queue])
    return decided


def unless_superseded(transition: Transition, rules: QueueRules) -> Script[Transition]:
    """Cancel a job that would return to its queue in favour of a newer one of its thread, unless its effect may exist.

    For both jobs the latest must count: a job that must be kept neither makes way nor takes another's place.
    """
    gate = transition.gate
    if transition.effect == Landed.MAYBE or gate is None or transition.move == Move.REPLAY:
        return transition
    found = yield "newest_unclaimed", {"gate": gate, "n": transition.n}
    for newer, *details in found:
        if all(mode_in(gate, each, rules) == "latest" for each in details):
            return msgspec.structs.replace(transition, move=Move.CANCEL).carrying(SupersededBy(newer))
    return transition


def inherited(round_: Round, found: Sequence[Member], job: NewJob) -> tuple[float | None, int | None]:
    """Return what a new job takes over from older jobs of its thread: the first-seen time and the higher priority."""
    older = [each for each in found if each.handler == job.handler]
    own = first_seen(round_, job)
    known = [each.first_seen_at for each in older] + ([] if own is None else [own])
    return min(known, default=None), max((each.priority for each in older), default=None)
