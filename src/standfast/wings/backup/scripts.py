"""Scripts for a store that was just restored: what it would do by itself may have been done since its backup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from standfast.failure import Failure
from standfast.lifecycle import Move, NoticeKind, State, Transition
from standfast.spine.apply import Ending
from standfast.store.scripts import Patience, writes
from standfast.store.steps import Round, Script, text
from standfast.views import Triage
from standfast.wings.policy.scripts import SCHEDULED
from standfast.wings.policy.triage import Judgement
from standfast.wings.redrives import scripts as redrives
from standfast.wings.sessions import scripts as sessions
from standfast.wings.sessions.scripts import AbandonedReplay
from standfast.wings.sessions.words import RESTORED
from standfast.wings.tokens import scripts as tokens
from standfast.wings.tokens.scripts import Revocation

BITE = 1000
"""How many jobs one transaction changes, so that none grows without bound."""
TAKEN_BACK = "a restore took back its automatic replay, which may have run since the backup"


class RestoredHold(NamedTuple):
    """Why restored jobs are held, and how many at once."""

    failure: Failure
    triage: Triage
    limit: int = BITE
    name: Callable[[str, str], str] | None = None
    """Returns the fingerprint of this cause for a queue and a handler."""


@writes(patience=Patience.ENDLESS)
def hold_restored(round_: Round, holdings: Sequence[RestoredHold]) -> Script[list[bool]]:
    """Hold the jobs that were queued or running when the backup was made; return for each whether there are more."""
    answers = []
    for failure, triage, limit, name in holdings:
        rows = yield "restored_jobs", {"limit": limit}
        numbers = text([n for n, *_ in rows])
        yield "hold_jobs", {"numbers": numbers, "now": round_.now, "landed": failure.landed}
        if rows:
            yield (
                "write_endings",
                [
                    Ending(n, failure=text(failure), triage=text(triage), fingerprint=name and name(queue, handler))
                    for n, _, queue, handler, *_ in rows
                ],
            )
            line = {"at": round_.now, **msgspec.to_builtins(failure)}
            del line["advice"]
            yield "write_history", [(n, text({**line, "attempt": attempts})) for n, *_, attempts in rows]
        for _, job_id, queue, *_ in rows:
            round_.notices[NoticeKind.HELD, queue].append(job_id)
        yield from sessions.tell(round_, [_hold_transition(row, failure, triage) for row in rows])
        answers.append(len(rows) == limit)
    return answers


def _hold_transition(row: Sequence[Any], failure: Failure, triage: Triage) -> Transition:
    """Return what became of a restored job as a transition, for its session's message."""
    n, job_id, queue, _, token, _ = row
    return Transition(n, token, job_id, queue, Move.HOLD, State.QUEUED, failure=failure, carries=(Judgement(triage),))


class RestoredPause(NamedTuple):
    """What to pause apart from jobs; `jobs_held` says whether these are held, too."""

    jobs_held: bool


@writes(patience=Patience.ENDLESS)
def pause_restored(round_: Round, pauses: Sequence[RestoredPause]) -> Script[list[None]]:
    """Let nothing go on in a restored store but jobs: redrives pause, unused approvals are void, workers are gone.

    If every job is held, no gate has anything to count. Otherwise those of threads, limits and rates are kept, because
    the jobs that they count go on.
    """
    for each in pauses:
        yield "drop_gates" if each.jobs_held else "drop_findings", {}
        yield "recount_workflows", {}
        yield from redrives.pause_after_restore()
        yield "delete_workers", {"before": round_.now + 1, "limit": BITE}
    return [None] * len(pauses)


class Authority(NamedTuple):
    """How many tokens, and how many grants of sessions, are valid in a restored store."""

    tokens: int
    consents: int


def authority(now: float) -> Script[Authority]:
    """Count the valid tokens and grants."""
    [found] = yield "valid_authority", {"now": now}
    return Authority(*found)


@writes(patience=Patience.ENDLESS)
def revoke_tokens(round_: Round, by: Sequence[str]) -> Script[list[int]]:
    """Revoke every valid token, each with its link of the audit chain; return how many they were."""
    answers = []
    for each in by:
        valid = yield from tokens.list_tokens(round_.now)
        yield from tokens.revoke(round_, [Revocation(token.name, each) for token in valid])
        answers.append(len(valid))
    return answers


@writes(patience=Patience.ENDLESS)
def take_back_replays(round_: Round, limits: Sequence[int]) -> Script[list[int]]:
    """Leave to a person the letters that would be replayed automatically, now or under another policy.

    Return for each limit how many there were: as long as it was reached, there may be more.
    """
    answers = []
    for limit in limits:
        rows = yield "automatic_replays", {"limit": limit}
        if rows:
            yield "take_back_replays", {"numbers": text([n for n, *_ in rows]), "note": TAKEN_BACK}
        for n, token, job_id, queue, status in rows:
            if status == SCHEDULED:  # of a refused replay, its session has heard
                yield from sessions.tell_gave_up(round_, AbandonedReplay(n, token, job_id, queue, RESTORED))
        answers.append(len(rows))
    return answers
