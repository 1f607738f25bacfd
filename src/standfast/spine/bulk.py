"""Store several jobs or none, also if a queue has room for only some of them or a key belongs to another job."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from standfast.job import NewJob
from standfast.spine.claim_requests import Accepted, Conflict, Full
from standfast.spine.intake import enqueue, known_queues
from standfast.store.room import ROOM_TO_ACCEPT
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script


@writes(room=ROOM_TO_ACCEPT, size=len, newcomers=chain.from_iterable)
def enqueue_bulk(round_: Round, batches: Sequence[Sequence[NewJob]]) -> Script[list[list[Accepted]]]:
    """Store each batch whole or not at all.

    If one job of a batch is refused, none is stored, and only the refusals among the answers mean anything.
    """
    answers = []
    for jobs in batches:
        known = yield from known_queues({job.queue for job in jobs})
        limited = any(facts.max_depth is not None for facts in known.values())
        refusable = limited or any(job.idempotency_key is not None for job in jobs)
        answers.append((yield from _all_or_none(round_, jobs) if refusable else enqueue(round_, jobs)))
    return answers


def store_bulk(round_: Round, jobs: Sequence[NewJob]) -> Script[bool]:
    """Store all of these jobs, or none; return whether they were stored."""
    [answers] = yield from enqueue_bulk(round_, [jobs])
    return not any(isinstance(answer, Full) for answer in answers)


def _all_or_none(round_: Round, jobs: Sequence[NewJob]) -> Script[list[Accepted]]:
    """Store the jobs in a part of the round, so that no notice remains if the batch is undone."""
    alone = round_.part(round_.now)
    yield "begin_batch", {}
    answers = yield from enqueue(alone, jobs)
    full: list[Accepted] = [answer for answer in answers if isinstance(answer, Full)]
    if full or any(isinstance(answer, Conflict) for answer in answers):
        yield "undo_batch", {}
    else:
        round_.absorb(alone)
    yield "end_batch", {}
    return full[:1] * len(jobs) or answers
