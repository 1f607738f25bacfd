"""Workers that are lost: how much each held when that was noticed; and which of the others runs suspects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from standfast.job import Claim
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text

LIVE_FOR = 30.0
"""Seconds after its last heartbeat in which a worker that stands apart keeps others from doing so."""


class LostWorker(NamedTuple):
    """A lost worker. `held` counts its jobs when that was noticed, `company` those of its whole process."""

    worker: str
    held: int | None
    company: int | None
    """None while it is just being heard of: then nothing is taken from it."""
    certain: bool = False
    """Whether its process is known to be dead, rather than late."""

    def was_alone(self, claim: Claim) -> bool:
        """Tell whether a job was the only one that can have killed it.

        A suspect that ran alone in its worker is, whatever else its process called: a crash loop must end.
        """
        return self.held == 1 and (self.company == 1 or claim.suspect is not None)


def note_lost(round_: Round, workers: Iterable[str], dead: str) -> Script[dict[str, LostWorker]]:
    """Count what lost workers hold, once; give what is known of these."""
    named = text(sorted(workers))
    yield "note_lost", {"workers": named, "dead": dead, "now": round_.now}
    return {row[0]: LostWorker(*row) for row in (yield "lost_workers", {"workers": named})}


class SuspectTurn(NamedTuple):
    """A worker that wants to run the suspects of a queue, holding nothing else, while the others go on."""

    worker: str
    queue: str


@writes()
def take_suspect_turn(round_: Round, turns: Sequence[SuspectTurn]) -> Script[list[bool]]:
    """Let one worker at a time stand apart for a queue; answer for each whether it may."""
    answers = []
    for turn in turns:
        alive = {"boot": round_.boot, "since": round_.now - LIVE_FOR}
        answers.append(bool((yield "stand_apart", {"id": turn.worker, "queue": turn.queue, **alive})))
    return answers


@writes()
def release_suspect_turn(_round: Round, workers: Sequence[str]) -> Script[list[None]]:
    """Let another worker have the turn."""
    for worker in workers:
        yield "stand_back", {"id": worker}
    return [None] * len(workers)
