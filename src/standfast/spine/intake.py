"""How jobs come in: keys and threads first, then their bodies, then a hot row for each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from standfast.job import NewJob, Receipt
from standfast.lifecycle import State, Transition
from standfast.spine.apply import apply_decided, rules_in_force
from standfast.spine.claim import decode_numbers
from standfast.spine.orders import Accepted, Conflict, Full
from standfast.store.room import ROOM_TO_ACCEPT
from standfast.store.scripts import writes
from standfast.store.steps import Round, Rows, Script, text
from standfast.wings.queues import depth
from standfast.wings.threads import scripts as threads


@writes(room=ROOM_TO_ACCEPT, newcomers=iter)
def enqueue(round_: Round, jobs: Sequence[NewJob]) -> Script[list[Accepted]]:
    """Store new jobs; answer a Receipt, a Conflict or a Full for each."""
    yield from threads.lock(round_, threads.gates_of(jobs))
    known = yield from depth.known_queues({job.queue for job in jobs})
    yield from depth.lock(known)
    answers: depth.Answers = yield from _settle_keys(round_, [job for job in jobs if job.idempotency_key is not None])
    taken_in: dict[str, str | None] = {}
    fresh = [job for job in jobs if job.id not in answers] if answers else jobs
    plain = [job for job in fresh if job.thread_key is None]
    if plain:
        yield from _insert(round_, plain, known, answers)
    if len(plain) < len(fresh):
        for job in fresh:
            if job.thread_key is not None:
                gate = threads.gate_of(job.queue, job.thread_key)
                receipt = yield from _enqueue_in_thread(round_, job, gate, known)
                answers[job.id] = receipt
                if isinstance(receipt, Receipt):
                    taken_in[job.id] = receipt.id
    if not answers:
        return [Receipt(job.id, "accepted", State.QUEUED) for job in jobs]
    yield from depth.take_back(answers)
    return [
        _naming(taken_in, answers[job.id]) if job.id in answers else Receipt(job.id, "accepted", State.QUEUED)
        for job in jobs
    ]


def _naming(taken_in: dict[str, str | None], answer: Receipt | Conflict | Full) -> Receipt | Conflict | Full:
    """Have an answer about a job of this round name the one that took it in."""
    if isinstance(answer, Full):
        return answer
    if isinstance(answer, Conflict):
        return Conflict(taken_in.get(answer.job_id) or answer.job_id)
    return answer._replace(id=taken_in.get(answer.id or "", answer.id))


def _settle_keys(round_: Round, keyed: Sequence[NewJob]) -> Script[dict[str, Receipt | Conflict]]:
    """Find the keyed jobs that are already here, by the unique index alone."""
    if not keyed:
        return {}
    keys = [(job.queue, job.idempotency_key, job.id, job.fingerprint, round_.now) for job in keyed]
    twice = [job for job in keyed if job.body_key is not None]
    keys += [(job.queue, job.body_key, job.id, job.body_key, round_.now) for job in twice]
    owners: Rows = []
    while len(owners) < len(keys):  # a key that just expired may be deleted between the two statements
        yield "take_keys", sorted(keys, key=lambda row: row[:2])  # in the order every transaction takes them
        owners = yield "key_owners", {"keys": text(keys)}
    prints = {job.id: (job.fingerprint, job.body_key) for job in keyed}
    if twice:  # who has the body goes before who has the name
        owners = sorted(owners, key=lambda row: row[2] == prints[row[0]][1])
    answers: dict[str, Receipt | Conflict] = {}
    for job_id, owner, fingerprint, state, final in owners:
        if owner != job_id and fingerprint not in prints[job_id]:
            answers[job_id] = Conflict(owner)
        elif owner != job_id:
            answers[job_id] = Receipt(owner, "duplicate", state or (State.QUEUED if owner in prints else None))
        elif final and state is None:  # it came before, with a commit nobody knew of, has ended, and is pruned
            answers[job_id] = Receipt(job_id, "accepted", None)
    known = [job.id for job in twice if job.id in answers]
    if known:  # of two keys, one may be new: a job that is not stored keeps neither
        yield "forget_keys", {"ids": text(known)}
    return answers


class Terms(NamedTuple):
    """What a job's hot row is made of: jobs with the same terms get theirs by one statement."""

    queue: str
    handler: str
    priority: int | None
    delay: float
    at: float | None
    expires: float | None
    budget: int | None
    lease: float | None


def _by_terms(jobs: Sequence[NewJob], numbers: Sequence[int]) -> dict[Terms, list[int]]:
    """Put the numbers of jobs together that have the same terms: they are written alike."""
    alike: defaultdict[Any, list[int]] = defaultdict(list)
    for n, job in zip(numbers, jobs, strict=True):
        terms = (job.queue, job.handler, job.priority, job.delay, job.at, job.expires, job.budget, job.lease)
        alike[terms].append(n)
    return {Terms(*terms): theirs for terms, theirs in alike.items()}


def _insert(round_: Round, jobs: Sequence[NewJob], known: depth.Queues, answers: depth.Answers) -> Script[int]:
    """Write bodies and hot rows of the jobs there is room for; give the first one's number."""
    admitted = yield from depth.admitted(jobs, known, answers)
    if not admitted:
        return 0
    numbers = decode_numbers((yield "next_numbers", {"count": len(admitted)})[0][0])
    bodies = [
        (n, job.id, job.payload, job.idempotency_key, job.details, round_.now)
        for n, job in zip(numbers, admitted, strict=True)
    ]
    [(inserted,)] = yield "insert_bodies", bodies
    ids = {n: job_id for n, job_id, *_ in bodies} if inserted == len(bodies) else (yield from _came_now(numbers))
    seen = [(n, threads.first_seen(round_, job)) for n, job in zip(numbers, admitted, strict=True) if job.first_seen_at]
    if seen:
        yield "date_bodies", seen
    for terms, theirs in _by_terms(admitted, numbers).items():
        new = [n for n in theirs if n in ids]
        if new:
            row = hot_row(round_, terms, known[terms.queue])
            yield "insert_jobs", {"numbers": text(new), **row}
            round_.told["enqueued", terms.queue] += [ids[n] for n in new]
            round_.work_in(terms.queue, row["due_at"] - round_.now)
    return numbers[0]


def _came_now(numbers: Sequence[int]) -> Script[dict[int, str]]:
    """Read which bodies are new; the others came before, with a commit nobody knew of, and have their hot rows."""
    return dict((yield "bodies_of", {"numbers": text(numbers)}))


def hot_row(round_: Round, terms: Terms, queue: depth.Known) -> dict[str, Any]:
    """Lay the hot row of these terms out. Wall times become queue times here."""
    now = round_.now
    due_at = round_.due_at(terms.delay, terms.at)
    asked = None if terms.expires is None else terms.expires - round_.skew
    oldest = None if queue.max_age is None else now + queue.max_age
    limit = asked if oldest is None else oldest if asked is None else min(asked, oldest)
    return {
        "queue": terms.queue,
        "handler": terms.handler,
        "priority": terms.priority if terms.priority is not None else queue.priority or 0,
        "due_at": due_at,
        "ready_at": now if due_at <= now else None,
        "now": now,
        "budget": terms.budget,
        "asked_lease": terms.lease,
        "asked_expiry": asked,
        "expires_at": limit,
    }


def _enqueue_in_thread(round_: Round, job: NewJob, gate: str, known: depth.Queues) -> Script[Receipt | Full]:
    """Fold a job into one of its thread that was never claimed, or let it join the thread as a job of its own."""
    here = yield "state_of", {"id": job.id}
    if here:  # it came before, with a commit nobody knew of
        owner, state = here[0]
        return Receipt(owner, "accepted" if owner == job.id else "coalesced", state)
    rules = (yield from rules_in_force([job.queue]))[job.queue]
    mode = threads.mode_of(job, rules)
    priority = rules.priority if job.priority is None else job.priority
    job = msgspec.structs.replace(threads.collected(job) if mode == "collect" else job, priority=priority)
    found = yield from threads.members(gate, mode)
    bearer = threads.bearer(found, job.id)
    if bearer is not None:
        return Receipt(bearer.id, "coalesced", bearer.state)
    replaced_by = threads.newer(found, job, mode, round_)
    if replaced_by is not None:
        yield from threads.fold_under(round_, replaced_by, job)
        return Receipt(replaced_by.id, "coalesced", replaced_by.state)
    into = threads.carrier(found, job)
    if into is not None and (yield from threads.fold(round_, into, job, mode)):
        return Receipt(into.id, "coalesced", State.QUEUED)
    refused: dict[str, Full] = {}
    n = yield from _insert(round_, [job], known, refused)
    if refused:
        return refused[job.id]
    yield from _join_thread(round_, n, job, found, threads.superseded(found, job, mode, gate))
    return Receipt(job.id, "accepted", State.QUEUED)


def _join_thread(
    round_: Round, n: int, job: NewJob, found: Sequence[threads.Member], superseded: Sequence[Transition]
) -> Script[None]:
    """Make a new row a member of its thread, in the place of those it supersedes."""
    first_seen_at, highest = threads.inherited(round_, found, job)
    yield from apply_decided(round_, superseded)
    yield "enter_thread", {"n": n, "thread_key": job.thread_key, "first_seen_at": first_seen_at}
    if highest is not None:
        yield "raise_priority", {"n": n, "priority": highest}
    yield from threads.join(
        n, threads.gate_of(job.queue, job.thread_key or ""), due=round_.due_at(job.delay, job.at) <= round_.now
    )
