"""Full queues: with `max_depth` jobs due, new ones are refused, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Sequence

from standfast.job import NewJob, Receipt
from standfast.spine.claim_requests import Conflict, Full
from standfast.spine.riders import Answers, Queues
from standfast.store.steps import Round, Script, text


def lock_newcomers(_round: Round, _jobs: Sequence[NewJob], known: Queues, _answers: Answers) -> Script[None]:
    """Lock the queues of new jobs that have a `max_depth`."""
    yield from lock(known)


def lock(known: Queues) -> Script[None]:
    """Lock the queues that have a `max_depth` against other processes, in the order that every transaction uses."""
    for queue in sorted(queue for queue, facts in known.items() if facts.max_depth is not None):
        yield "lock_queue", {"queue": queue}


def admitted(jobs: Sequence[NewJob], known: Queues, answers: Answers) -> Script[Sequence[NewJob]]:
    """Return the jobs that their queues have room for, in the order they came; answer the others with Full."""
    limited = {queue: facts.max_depth for queue, facts in known.items() if facts.max_depth is not None}
    for queue, most in limited.items():
        theirs = list(dict.fromkeys(job.id for job in jobs if job.queue == queue))  # two relays hand in the same job
        answers |= dict.fromkeys((yield from _without_room(queue, most, theirs)), Full(most))
    return [job for job in jobs if job.id not in answers] if limited else jobs


def _without_room(queue: str, most: int, ids: list[str]) -> Script[list[str]]:
    """Return the ids of jobs without room. A job already stored, by an unacknowledged commit, needs none."""
    [(due,)] = yield "count_due", {"queue": queue, "most": most}
    if due + len(ids) <= most:
        return []
    here = {job_id for (job_id,) in (yield "known_ids", {"ids": text(ids)})}
    return [job_id for job_id in ids if job_id not in here][max(0, most - due) :]


def take_back(answers: Answers) -> Script[None]:
    """Free the keys that refused jobs had taken, and also refuse jobs that were answered with a refused one."""
    full = {job_id: answer for job_id, answer in answers.items() if isinstance(answer, Full)}
    if not full:
        return
    yield "forget_keys", {"ids": text(list(full))}
    for job_id, answer in answers.items():
        owner = answer.id if isinstance(answer, Receipt) else answer.job_id if isinstance(answer, Conflict) else None
        if owner in full:
            answers[job_id] = full[owner]
