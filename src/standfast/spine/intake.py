"""How jobs are stored: wings answer those that must not be stored, then bodies are written, then a hot row for each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, NamedTuple

from standfast.job import NewJob, Receipt
from standfast.lifecycle import NoticeKind, State
from standfast.spine.claim_requests import Accepted, Conflict, Full
from standfast.spine.riders import Answers, KnownQueue, Queues
from standfast.store.room import ROOM_TO_ACCEPT
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, encode, text

UNDECLARED = KnownQueue()

_id, _queue, _payload = attrgetter("id"), attrgetter("queue"), attrgetter("payload")
_key, _details = attrgetter("idempotency_key"), attrgetter("details")
_wings_part = attrgetter("idempotency_key", "thread_key")
"""A job with one of these is not plain: wings first check what is already stored."""
_first_seen_at, _max_depth = attrgetter("first_seen_at"), attrgetter("max_depth")
_receipt = partial(tuple.__new__, Receipt)


@writes(room=ROOM_TO_ACCEPT, newcomers=iter, leads=True)
def enqueue(round_: Round, jobs: Sequence[NewJob]) -> Script[list[Accepted]]:
    """Store new jobs; return a Receipt, a Conflict or a Full for each."""
    if not jobs:
        return []
    if round_.riders.shortcuts and {*map(_wings_part, jobs)} == {(None, None)}:
        known = yield from known_queues({*map(_queue, jobs)})
        if {*map(_max_depth, known.values())} == {None}:
            yield from store(round_, jobs, known)
            return [*map(_receipt, zip(map(_id, jobs), repeat("accepted"), repeat(State.QUEUED)))]
    return (yield from _past_wings(round_, jobs))


def _past_wings(round_: Round, jobs: Sequence[NewJob]) -> Script[list[Receipt | Conflict | Full]]:
    """Store new jobs that involve wings: they may exist already, be folded into another job, or find no room."""
    riders = round_.riders
    for expects in riders.expects:
        yield from expects(round_, jobs)
    known = yield from known_queues({job.queue for job in jobs})
    answers: Answers = {}
    for accepts in riders.accepts:
        yield from accepts(round_, jobs, known, answers)
    fresh = [job for job in jobs if job.id not in answers] if answers else jobs
    alone = [job for job in fresh if job.thread_key is None]
    if alone:
        yield from insert(round_, alone, known, answers)
    taken_in: dict[str, str | None] = {}
    if len(alone) < len(fresh):
        taken_in = yield from _join_threads(
            round_, [job for job in fresh if job.thread_key is not None], known, answers
        )
    for refuses in riders.refuses if answers else ():
        yield from refuses(answers)
    return [
        _naming(taken_in, answers[job.id]) if job.id in answers else Receipt(job.id, "accepted", State.QUEUED)
        for job in jobs
    ]


def known_queues(queues: set[str]) -> Script[dict[str, KnownQueue]]:
    """Read the rules that matter for new jobs of these queues; register queues that were never declared."""
    known = dict.fromkeys(queues, UNDECLARED)
    names = encode(sorted(queues)).decode()
    found = yield "known_queues", {"queues": names}
    for name, *rest in found:
        known[name] = KnownQueue(*rest)
    if len(found) < len(queues):
        yield "ensure_queues", {"queues": names}
    return known


def _join_threads(
    round_: Round, jobs: Sequence[NewJob], known: Queues, answers: Answers
) -> Script[dict[str, str | None]]:
    """Store new jobs that have a thread, one by one; return the id of the job that took each in, by its own id."""
    taken_in: dict[str, str | None] = {}
    for job in jobs:
        answers[job.id] = answer = yield from round_.riders.takes_in(round_, job, known)
        if isinstance(answer, Receipt):
            taken_in[job.id] = answer.id
    return taken_in


def _naming(taken_in: dict[str, str | None], answer: Receipt | Conflict | Full) -> Receipt | Conflict | Full:
    """Replace the id in an answer about a job of this round by the id of the job that took it in."""
    if isinstance(answer, Full):
        return answer
    if isinstance(answer, Conflict):
        return Conflict(taken_in.get(answer.job_id) or answer.job_id)
    return answer._replace(id=taken_in.get(answer.id or "", answer.id))


class Terms(NamedTuple):
    """What a job's hot row is made of. Jobs with the same terms get their rows from one statement."""

    queue: str
    handler: str
    priority: int | None
    delay: float
    at: float | None
    expires: float | None
    budget: int | None
    lease: float | None


_terms = attrgetter(*Terms._fields)


def _by_terms(jobs: Sequence[NewJob], numbers: Sequence[int]) -> dict[Any, tuple[Sequence[int], list[str]]]:
    """Group the numbers and ids of jobs by their terms: jobs with the same terms are written alike."""
    every, ids = [*map(_terms, jobs)], [*map(_id, jobs)]
    if every.count(every[0]) == len(every):
        return {every[0]: (numbers, ids)}
    alike: dict[Any, tuple[list[int], list[str]]] = {}
    for n, job_id, terms in zip(numbers, ids, every, strict=True):
        if terms not in alike:
            alike[terms] = [], []
        theirs, names = alike[terms]
        theirs.append(n)
        names.append(job_id)
    return {**alike}


def insert(round_: Round, jobs: Sequence[NewJob], known: Queues, answers: Answers) -> Script[int]:
    """Write bodies and hot rows of the jobs that there is room for; return the number of the first."""
    admitted = jobs
    for makes_room in round_.riders.makes_room:
        admitted = yield from makes_room(admitted, known, answers)
    return (yield from store(round_, admitted, known)) if admitted else 0


def next_numbers(count: int) -> Script[list[int]]:
    """Return `count` numbers that no job has, in ascending order."""
    return [*chain.from_iterable((yield "next_numbers", {"count": count}))]


def store(round_: Round, jobs: Sequence[NewJob], known: Queues) -> Script[int]:
    """Write bodies and hot rows; return the number of the first job."""
    now = round_.now
    numbers = yield from next_numbers(len(jobs))
    first = numbers[0]
    parts = map(_id, jobs), map(_payload, jobs), map(_key, jobs), map(_details, jobs)
    [(inserted,)] = yield "insert_bodies", [*zip(numbers, *parts, repeat(now))]
    if any(map(_first_seen_at, jobs)):
        seen = [(n, first_seen(round_, job)) for n, job in zip(numbers, jobs, strict=True) if job.first_seen_at]
        yield "date_bodies", seen
    if inserted < len(jobs):
        numbers, jobs = yield from _new_ones(numbers, jobs)
    for terms, (theirs, ids) in _by_terms(jobs, numbers).items() if jobs else ():
        queue = terms[0]
        row = hot_row(round_, Terms(*terms), known[queue])
        row["numbers"] = theirs
        yield "insert_jobs", row
        round_.notices[NoticeKind.ENQUEUED, queue] += ids
        delay = row["due_at"] - now
        if delay < round_.work.get(queue, delay + 1):
            round_.work[queue] = delay
    return first


def _new_ones(numbers: Sequence[int], jobs: Sequence[NewJob]) -> Script[tuple[list[int], list[NewJob]]]:
    """Read which bodies are new. The others came with an earlier commit whose answer was lost, and have hot rows."""
    new: dict[int, str] = dict((yield "bodies_of", {"numbers": text(numbers)}))
    pairs = [(n, job) for n, job in zip(numbers, jobs, strict=True) if n in new]
    return [n for n, _ in pairs], [job for _, job in pairs]


def hot_row(round_: Round, terms: Terms, queue: KnownQueue) -> dict[str, Any]:
    """Build the hot row for these terms. Wall times become queue times here."""
    now = round_.now
    due_at = round_.due_at(terms.delay, terms.at) if terms.delay or terms.at is not None else now
    expires = None if terms.expires is None else terms.expires - round_.skew
    oldest = None if queue.max_age is None else now + queue.max_age
    limit = expires if oldest is None else oldest if expires is None else min(expires, oldest)
    return {
        "queue": terms.queue,
        "handler": terms.handler,
        "priority": terms.priority if terms.priority is not None else queue.priority or 0,
        "due_at": due_at,
        "ready_at": now if due_at <= now else None,
        "now": now,
        "budget": terms.budget,
        "asked_lease": terms.lease,
        "asked_expiry": expires,
        "expires_at": limit,
    }


def first_seen(round_: Round, job: NewJob) -> float | None:
    """Return the queue time since which a new job has been wanted, but not later than now; None if it was not given."""
    return None if job.first_seen_at is None else min(job.first_seen_at - round_.skew, round_.now)
