"""Scripts for jobs that were first written elsewhere and now come into the store, each once, however often brought.

A spool brings jobs that a host accepted earlier. They are stored as of then: delay, age and place in the line count
from acceptance, and a full queue takes them all the same. An outbox brings jobs that their caller has committed; if the
queue is full, they stay there.

Each job leaves an alias: brought again, it is recognised, even if it was pruned long ago. Its source may be unable to
delete it, for however long: an alias is deleted a month after its job was last brought. On PostgreSQL it also says what
became of the id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import NamedTuple, TypeVar

from standfast.errors import StandfastError
from standfast.job import NewJob, Receipt
from standfast.spine.claim import rules_in_force
from standfast.spine.claim_requests import Conflict
from standfast.spine.intake import enqueue
from standfast.store.room import ROOM_TO_ACCEPT
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text
from standfast.wings.letters.insert_dead import DeadJob, insert_dead
from standfast.wings.threads import scripts as threads

T = TypeVar("T")

SAME_TIME = 1.0
"""Jobs accepted within this many seconds are stored together, as of the first one's time: an outage leaves many.

Jobs of threads are not, since their times decide which of them is the latest.
"""


class Unforwardable(StandfastError):
    """The store can take no such job, now or later: a mistake of ours, which must not hold up other jobs."""


class Forward(NamedTuple):
    """A job, the queue time of its acceptance if that was earlier, and the letter to make if its key is another's."""

    job: NewJob
    accepted_at: float
    dead_job: Callable[[NewJob, Conflict], DeadJob]
    unsure: Callable[[NewJob], DeadJob] | None = None
    """The letter to make if the job may have been stored before: unknown once completed jobs are pruned."""
    limited: bool = False
    """Whether it stays in its source while its queue is full."""


@writes(newcomers=lambda brought: (each.job for each in brought))
def forward(round_: Round, forwards: Sequence[Forward]) -> Script[list[bool]]:
    """Store the jobs that are not known yet; answer for each whether it is here once this is committed."""
    jobs = [each.job for each in forwards]
    yield from threads.lock(round_, threads.gates_of(jobs))
    before = yield from _brought_before(jobs)
    known = {*before}
    buried, ran = yield from _insert_forgotten(round_, [each for each in forwards if each.job.id not in known])
    owners = {job_id: job_id for job_id in buried}
    known |= buried | ran
    for run in _runs([each for each in forwards if each.job.id not in known]):
        owners |= yield from _accept(round_, run)
    yield from _remember(round_, dict(zip(before, before, strict=True)) | owners)
    return [each.job.id in known or each.job.id in owners for each in forwards]


bring = writes(room=ROOM_TO_ACCEPT, newcomers=lambda brought: (each.job for each in brought))(forward.run)
"""The same for jobs that are accepted only now: if the disk is low, they stay in their source."""


@writes(room=ROOM_TO_ACCEPT)
def bury(round_: Round, dead: Sequence[DeadJob]) -> Script[list[bool]]:
    """Store jobs of an outbox as letters, each once; answer for each whether it is here once this is committed."""
    before = yield from _brought_before([each.job for each in dead])
    fresh = [each for each in dead if each.job.id not in before]
    buried = yield from insert_dead(round_, fresh)
    here = [*before, *(each.job.id for each, done in zip(fresh, buried, strict=True) if done)]
    yield from _remember(round_, dict(zip(here, here, strict=True)))
    return [each.job.id in here for each in dead]


def _brought_before(jobs: Sequence[NewJob]) -> Script[list[str]]:
    """Return the ids that were brought before."""
    return [job_id for (job_id,) in (yield "known_aliases", {"ids": text([job.id for job in jobs])})]


def _remember(round_: Round, owners: dict[str, str]) -> Script[None]:
    """Remember ids that were brought just now, by the ids of the jobs that they became."""
    if owners:
        yield "write_aliases", [(job_id, owner, round_.now) for job_id, owner in sorted(owners.items())]


def _insert_forgotten(round_: Round, forwards: Sequence[Forward]) -> Script[tuple[set[str], set[str]]]:
    """Make letters of jobs the store may have had and pruned; return their ids, and those whose key shows they ran."""
    unsure = [each for each in forwards if each.unsure is not None]
    if not unsure:
        return set(), set()
    rules = yield from rules_in_force({each.job.queue for each in unsure})
    kept = {queue: rules[queue].keep_completed or inf for queue in rules}
    old = [each.job for each in unsure if round_.now - each.accepted_at > kept[each.job.queue]]
    here = {job_id for (job_id,) in (yield "known_ids", {"ids": text([job.id for job in old])})}
    keys = [(job.queue, job.idempotency_key, job.id) for job in old if job.idempotency_key is not None]
    owners = {job_id: owner for job_id, owner, *_ in (yield "key_owners", {"keys": text(keys)})}
    forgotten = {job.id for job in old} - here - set(owners)
    for each in unsure:
        if each.unsure is not None and each.job.id in forgotten:
            yield from _counted(insert_dead(round_, [each.unsure(each.job)]))
    return forgotten, {job_id for job_id, owner in owners.items() if owner == job_id and job_id not in here}


def _runs(forwards: Sequence[Forward]) -> Iterator[list[Forward]]:
    """Cut into runs that can be stored as of one time."""
    run: list[Forward] = []
    for each in forwards:
        if run and not _alike(run[0], each):
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def _alike(first: Forward, each: Forward) -> bool:
    """Return whether two jobs can be stored by one call."""
    plain = first.job.thread_key is None and each.job.thread_key is None
    return plain and first.accepted_at <= each.accepted_at <= first.accepted_at + SAME_TIME


def _accept(round_: Round, run: Sequence[Forward]) -> Script[dict[str, str]]:
    """Store jobs as of one time, or as letters; return the ids of those here now, and of the jobs they became."""
    at, limited = min(run[0].accepted_at, round_.now), run[0].limited
    then = round_.part(at, late=at < round_.now)
    answers = yield from _counted(enqueue(then, [each.job for each in run]), limited=limited)
    owners = {}
    for each, answer in zip(run, answers, strict=True):
        if isinstance(answer, Receipt):
            owners[each.job.id] = answer.id or each.job.id
        elif isinstance(answer, Conflict):
            [buried] = yield from _counted(insert_dead(round_, [each.dead_job(each.job, answer)]), limited=limited)
            owners |= {each.job.id: each.job.id} if buried else {}
    then.work = {queue: delay - (round_.now - then.now) for queue, delay in then.work.items()}
    round_.absorb(then)
    return owners


def _counted(script: Script[T], *, limited: bool = False) -> Script[T]:
    """Run a script. Without a limit it sees no `max_depth`, which refuses new jobs: these were accepted before."""
    try:
        step = next(script)
        while True:
            rows = yield step
            if step[0] == "known_queues" and not limited:
                rows = [(name, priority, max_age, None) for name, priority, max_age, _ in rows]
            step = script.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result
