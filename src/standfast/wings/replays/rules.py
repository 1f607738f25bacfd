"""What a person may do to a letter: replay, resolve, discard. Every door gives the same answers."""

from __future__ import annotations

import msgspec

from standfast.failure import Landed
from standfast.lifecycle import LETTERS, Carried, JobRef, Move, Transition, asked_by, duplicate_if
from standfast.views import Triage
from standfast.wings.effects.findings import LookResult, with_findings
from standfast.wings.policy.triage import Judgement


class Refusal(msgspec.Struct, frozen=True):
    """Why it cannot be done now, and what to do instead."""

    why: str


def replay(
    job: JobRef,
    *,
    attempt: int = 0,
    landed: Landed | None = None,
    by: str | None = None,
    reason: str | None = None,
    looks: tuple[LookResult, ...] = (),
) -> Transition | Refusal:
    """Put a letter back to work: same job, id, key and payload, in a new round.

    `attempt` was its last one, `looks` the results of checking its effects just now. If any attempt may have landed,
    this is recorded as a possible duplicate first.
    """
    if job.state not in LETTERS:
        return Refusal(f"only a dead or held job can be replayed; this one is {job.state}")
    twice = duplicate_if(landed == Landed.MAYBE)
    back = job.moved(Move.REPLAY, *asked_by(by, reason), *twice, attempt=attempt)
    return with_findings(back, looks=looks)


def resolve(
    job: JobRef,
    *,
    by: str,
    reason: str | None,
    triage: Triage | None = None,
    attempt: int = 0,
    result: str | None = None,
    warning: str | None = None,
    looks: tuple[LookResult, ...] = (),
) -> Transition | Refusal:
    """End a letter whose effect is there: a check saw it, or a person says so."""
    if job.state not in LETTERS:
        return Refusal(f"only a dead or held job can be resolved; this one is {job.state}")
    carries: list[Carried] = [*asked_by(by, reason)]
    if triage is not None:
        carries.append(Judgement(msgspec.structs.replace(triage, replay_status="resolved", replay_at=None)))
    ended = job.moved(Move.RESOLVE, *carries, attempt=attempt, result=result, warning=warning)
    return with_findings(ended, looks=looks)


def discard(job: JobRef, *, by: str, reason: str, attempt: int = 0) -> Transition | Refusal:
    """End a letter that is no longer wanted: it never runs again."""
    if job.state not in LETTERS:
        return Refusal(f"only a dead or held job can be discarded; this one is {job.state}")
    return job.moved(Move.DISCARD, *asked_by(by, reason), attempt=attempt)
