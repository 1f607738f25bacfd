"""Jobs that were accepted on some host earlier and come into the store now.

They are stored as of then: their delay, age and place in the line count from their acceptance. They were accepted, so
a queue that takes no more takes them all the same. Each leaves an alias, which says what became of its id: brought
again, it is known, even if its job is long gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import NamedTuple, TypeVar

from standfast.errors import StandfastError
from standfast.job import NewJob, Receipt
from standfast.spine.claim import rules_in_force
from standfast.spine.intake import enqueue
from standfast.spine.orders import Conflict
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text
from standfast.wings.letters.births import Burial, bury
from standfast.wings.threads import scripts as threads

T = TypeVar("T")

SAME_TIME = 1.0
"""Jobs accepted within so many seconds are stored together, as of the first one's time: they are many after an outage.

Those of threads are not: which of them is the latest depends on it.
"""


class Unforwardable(StandfastError):
    """The store can take no such job, now or later: a mistake of ours, which must hold up no other job."""


class Forward(NamedTuple):
    """A job, the queue time of its acceptance, and how to bury it if its key turns out to be another's."""

    job: NewJob
    accepted_at: float
    burial: Callable[[NewJob, Conflict], Burial]
    unsure: Callable[[NewJob], Burial] | None = None
    """How to bury it if it may have been here before: nobody can tell once what was completed then is pruned."""


@writes(newcomers=lambda brought: (each.job for each in brought))
def forward(round_: Round, brought: Sequence[Forward]) -> Script[list[None]]:
    """Store what is not known yet; when this is committed, all of it is."""
    jobs = [each.job for each in brought]
    yield from threads.lock(round_, threads.gates_of(jobs))
    known = {job_id for (job_id,) in (yield "known_aliases", {"ids": text([job.id for job in jobs])})}
    known |= yield from _bury_forgotten(round_, [each for each in brought if each.job.id not in known])
    for together in _accepted_together([each for each in brought if each.job.id not in known]):
        yield from _accept(round_, together)
    return [None] * len(brought)


def _bury_forgotten(round_: Round, brought: Sequence[Forward]) -> Script[set[str]]:
    """Bury what the store may have had and pruned; give their ids, and those of jobs whose key tells that they ran."""
    unsure = [each for each in brought if each.unsure is not None]
    if not unsure:
        return set()
    rules = yield from rules_in_force({each.job.queue for each in unsure})
    kept = {queue: rules[queue].keep_completed or inf for queue in rules}
    old = [each.job for each in unsure if round_.now - each.accepted_at > kept[each.job.queue]]
    here = {job_id for (job_id,) in (yield "known_ids", {"ids": text([job.id for job in old])})}
    keys = [(job.queue, job.idempotency_key, job.id) for job in old if job.idempotency_key is not None]
    owners = {job_id: owner for job_id, owner, *_ in (yield "key_owners", {"keys": text(keys)})}
    forgotten = {job.id for job in old} - here - set(owners)
    for each in unsure:
        if each.unsure is not None and each.job.id in forgotten:
            yield from _without_limit(bury(round_, [each.unsure(each.job)]))
            yield "write_aliases", [(each.job.id, each.job.id, round_.now)]
    return forgotten | {job_id for job_id, owner in owners.items() if owner == job_id and job_id not in here}


def _accepted_together(brought: Sequence[Forward]) -> Iterator[list[Forward]]:
    """Cut into runs that can be stored as of one time."""
    run: list[Forward] = []
    for each in brought:
        if run and not _alike(run[0], each):
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def _alike(first: Forward, each: Forward) -> bool:
    """Tell whether two jobs can be stored by one call."""
    plain = first.job.thread_key is None and each.job.thread_key is None
    return plain and 0 <= each.accepted_at - first.accepted_at <= SAME_TIME


def _accept(round_: Round, together: Sequence[Forward]) -> Script[None]:
    then = round_.part(min(together[0].accepted_at, round_.now), late=True)
    answers = yield from _without_limit(enqueue(then, [each.job for each in together]))
    aliases = []
    for each, answer in zip(together, answers, strict=True):
        if isinstance(answer, Conflict):
            yield from _without_limit(bury(round_, [each.burial(each.job, answer)]))
        owner = answer.id if isinstance(answer, Receipt) else each.job.id
        aliases.append((each.job.id, owner, round_.now))
    yield "write_aliases", aliases
    then.work = {queue: delay - (round_.now - then.now) for queue, delay in then.work.items()}
    round_.absorb(then)


def _without_limit(script: Script[T]) -> Script[T]:
    """Have a script know no `max_depth`: that refuses new jobs, and these were accepted."""
    try:
        step = next(script)
        while True:
            rows = yield step
            if step[0] == "known_queues":
                rows = [(name, priority, max_age, None) for name, priority, max_age, _ in rows]
            step = script.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result
