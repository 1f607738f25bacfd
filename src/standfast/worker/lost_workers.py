"""Lost workers: how many jobs each held when its loss was noticed, and which worker runs the suspects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from standfast.job import Claim
from standfast.spine.claim import startable_suspects
from standfast.spine.claim_requests import QueueDemand
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text

LIVE_FOR = 30.0
"""How long, after its last heartbeat, a worker that has the suspects' turn keeps it from other workers."""


class LostWorker(NamedTuple):
    """A lost worker. `held` counts its jobs when its loss was noticed, `company` those of its whole process."""

    worker: str
    held: int | None
    company: int | None
    """None while the worker's heartbeat is being written: then no job is taken from it."""
    certain: bool = False
    """Whether its process is known to be dead, rather than late."""

    def was_alone(self, claim: Claim) -> bool:
        """Return whether a job was the only one that can have killed the worker.

        That holds for a suspect that ran alone in its worker, whatever else the process called: a crash loop must end.
        """
        return self.held == 1 and (self.company == 1 or claim.suspect is not None)


def note_lost(round_: Round, workers: Iterable[str], dead: str) -> Script[dict[str, LostWorker]]:
    """Count the jobs that lost workers hold, once; return what is known of `workers`."""
    named = text(sorted(workers))
    yield "note_lost", {"workers": named, "dead": dead, "now": round_.now}
    return {row[0]: LostWorker(*row) for row in (yield "lost_workers", {"workers": named})}


def count_startable(demands: Iterable[QueueDemand]) -> Script[int]:
    """Return how many suspects could start now, as far as is known."""
    total = 0
    for demand in demands:
        total += yield from startable_suspects(demand)
    return total


class SuspectTurn(NamedTuple):
    """A worker that wants to run the suspects of a queue, holding nothing else, while other workers go on."""

    worker: str
    queue: str


@writes()
def take_suspect_turn(round_: Round, turns: Sequence[SuspectTurn]) -> Script[list[bool]]:
    """Give one worker at a time the turn to run a queue's suspects; return for each whether it got it."""
    answers = []
    for turn in turns:
        alive = {"boot": round_.boot, "since": round_.now - LIVE_FOR}
        answers.append(bool((yield "stand_apart", {"id": turn.worker, "queue": turn.queue, **alive})))
    return answers


@writes()
def release_suspect_turn(_round: Round, workers: Sequence[str]) -> Script[list[None]]:
    """Release the turn, so that another worker can take it."""
    for worker in workers:
        yield "stand_back", {"id": worker}
    return [None] * len(workers)
