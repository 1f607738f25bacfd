"""What a person may do to a job, by its state: replay, resolve, discard, cancel. The same answers from every door."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.failure import Landed
from standfast.lifecycle import FINAL, LETTERS, Move, Standing, State, Transition, Triage
from standfast.printable import printable
from standfast.wings.approvals.words import Filing
from standfast.wings.effects.findings import Sighting, with_findings


class Refusal(msgspec.Struct, frozen=True):
    """Why it cannot be done now, and what to do instead."""

    why: str


def replay(
    job: Standing,
    *,
    attempt: int = 0,
    landed: Landed | None = None,
    by: str | None = None,
    reason: str | None = None,
    looks: tuple[Sighting, ...] = (),
) -> Transition | Refusal:
    """Put a letter back to work: same job, id, key and payload, in a new round.

    `attempt` was its last one, `looks` what was seen of its effects just now. If any attempt may have landed, this is
    written down as a possible duplicate first.
    """
    if job.state not in LETTERS:
        return Refusal(f"only a dead or held job can be replayed; this one is {job.state}")
    asked = {"by": by and printable(by), "reason": reason and printable(reason)}
    back = _moved(job, Move.REPLAY, attempt=attempt, possible_duplicate=landed == Landed.MAYBE, **asked)
    return with_findings(back, looks=looks)


def resolve(
    job: Standing,
    *,
    by: str,
    reason: str | None,
    triage: Triage | None = None,
    attempt: int = 0,
    result: str | None = None,
    warning: str | None = None,
    looks: tuple[Sighting, ...] = (),
) -> Transition | Refusal:
    """End a letter whose effect is there: a check saw it, or a person says so."""
    if job.state not in LETTERS:
        return Refusal(f"only a dead or held job can be resolved; this one is {job.state}")
    asked = {"by": printable(by), "reason": reason and printable(reason)}
    over = None if triage is None else msgspec.structs.replace(triage, replay_status="resolved", replay_at=None)
    ended = {"triage": over, "result": result, "warning": warning}
    return with_findings(_moved(job, Move.RESOLVE, attempt=attempt, **asked, **ended), looks=looks)


def discard(job: Standing, *, by: str, reason: str, attempt: int = 0) -> Transition | Refusal:
    """End a letter that nobody wants any more: it never runs again."""
    if job.state not in LETTERS:
        return Refusal(f"only a dead or held job can be discarded; this one is {job.state}")
    return _moved(job, Move.DISCARD, attempt=attempt, by=printable(by), reason=printable(reason))


def cancel(job: Standing, *, by: str | None = None) -> Transition | Refusal:
    """End a job that is not wanted any more. A running one can only be asked to stop."""
    if job.state in FINAL:
        return Refusal(f"it is already {job.state}")
    if job.state == State.RUNNING:
        return Refusal("it is running and was asked to stop; it ends cancelled unless this attempt succeeds")
    return _moved(job, Move.CANCEL, by=by and printable(by))


def release(job: Standing, *, by: str, reason: str) -> Transition:
    """Let a held job go on that got the answer it waited for: nothing was tried since, so this is no replay."""
    return _moved(job, Move.RELEASE, by=printable(by), reason=printable(reason))


def unwanted(decided: Transition) -> Transition:
    """Let a job end cancelled that somebody cancelled while it ran, unless its attempt succeeded.

    What is known of its effect is kept, but nothing is repeated.
    """
    if decided.target in FINAL:
        return decided
    return msgspec.structs.replace(
        decided.without(Filing),
        move=Move.CANCEL,
        warning="cancelled while it ran",
        triage=None,
        fingerprint=None,
        policy_snapshot=None,
        possible_duplicate=False,
    )


def _moved(job: Standing, move: Move, **what: Any) -> Transition:
    return Transition(job.n, job.token, job.id, job.queue, move, job.state, gate=job.gate, **what)
