"""The states of a job and the moves between them: one table, from which the docs' diagram is drawn."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from standfast.failure import Action, Failure, Landed
from standfast.wings.approvals.words import Answer, Filing
from standfast.wings.audit.words import Decision
from standfast.wings.consent.words import Use
from standfast.wings.limits.holds import HoldRequest
from standfast.wings.limits.words import Word
from standfast.wings.redrives.words import Leg
from standfast.wings.sessions.words import Origin


class State(StrEnum):
    """Where a job is. Only `completed` and `cancelled` are final."""

    QUEUED = "queued"
    WAITING = "waiting"
    RUNNING = "running"
    HELD = "held"
    DEAD = "dead"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class Move(StrEnum):
    """What can happen to a job."""

    CLAIM = "claim"
    COMPLETE = "complete"
    RETRY = "retry"
    SNOOZE = "snooze"
    GIVE_BACK = "give_back"
    DIE = "die"
    HOLD = "hold"
    REPLAY = "replay"
    RESOLVE = "resolve"
    RELEASE = "release"
    DISCARD = "discard"
    CANCEL = "cancel"


FINAL = frozenset({State.COMPLETED, State.CANCELLED})
LETTERS = frozenset({State.DEAD, State.HELD})
BIRTHS = frozenset({State.QUEUED, State.WAITING, State.RUNNING, State.DEAD, State.HELD})
UNFINISHED = frozenset(State) - FINAL

MOVES: dict[Move, tuple[frozenset[State], State]] = {
    Move.CLAIM: (frozenset({State.QUEUED}), State.RUNNING),
    Move.COMPLETE: (frozenset({State.RUNNING}), State.COMPLETED),
    Move.RETRY: (frozenset({State.RUNNING}), State.QUEUED),
    Move.SNOOZE: (frozenset({State.RUNNING}), State.QUEUED),
    Move.GIVE_BACK: (frozenset({State.RUNNING}), State.QUEUED),
    Move.DIE: (frozenset({State.RUNNING, State.QUEUED, State.HELD}), State.DEAD),
    Move.HOLD: (frozenset({State.RUNNING, State.QUEUED, State.DEAD}), State.HELD),
    Move.REPLAY: (frozenset({State.DEAD, State.HELD}), State.QUEUED),
    Move.RESOLVE: (frozenset({State.DEAD, State.HELD, State.QUEUED}), State.COMPLETED),
    Move.RELEASE: (frozenset({State.WAITING, State.HELD}), State.QUEUED),
    Move.DISCARD: (LETTERS, State.CANCELLED),
    Move.CANCEL: (UNFINISHED, State.CANCELLED),
}
"""Each move: the states it may start from, and the one state it ends in."""


def diagram() -> str:
    """Draw the table as Mermaid's state diagram, for the docs."""
    ways: dict[tuple[State, State], list[Move]] = {}
    for move, (sources, target) in MOVES.items():
        for source in sorted(sources, key=list(State).index):
            ways.setdefault((source, target), []).append(move)
    lines = [f"[*] --> {state}" for state in State if state in BIRTHS]
    lines += [f"{source} --> {target}: {', '.join(moves)}" for (source, target), moves in ways.items()]
    lines += [f"{state} --> [*]" for state in State if state in FINAL]
    return "\n    ".join(["stateDiagram-v2", *lines]) + "\n"


class Standing(msgspec.Struct, frozen=True):
    """Where a job stands, as somebody has just read it. What is decided lands only if it still stands there."""

    n: int
    token: int
    id: str
    queue: str
    state: State
    gate: str | None = None


REPLAY_STATUSES = (
    *("none", "scheduled", "pending_review", "approval_pending", "denied"),
    *("replayed", "resolved", "quarantined", "discarded"),
)
"""Where a letter can be in its triage."""


class Triage(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy says should happen to a letter."""

    action: Action
    rule: str
    owner: str | None = None
    approver_group: str | None = None
    approver_groups: tuple[str, ...] = ()
    """All groups its approver must be in, where an approval was asked for."""
    replay_status: str = "pending_review"
    replay_at: float | datetime | None = None
    """When it is replayed by itself: queue time where it is stored, a moment where somebody reads it."""
    note: str | None = None
    """Why an earlier rule that fits did not decide."""


class Sighting(NamedTuple):
    """What a look saw of an effect, as the ledger keeps it: its key, the verdict, and what was found (JSON text)."""

    key: str
    verdict: str
    receipt: str | None = None


class Transition(msgspec.Struct, frozen=True):
    """One decided change of a job. It lands only while the job still has this token and this source state.

    `delay` is counted from the commit. `spends` and `defers` are added to the job's counts.
    """

    n: int
    token: int
    id: str
    queue: str
    move: Move
    source: State = State.RUNNING
    attempt: int = 0
    worker: str | None = None
    delay: float = 0.0
    spends: int = 0
    defers: int = 0
    failure: Failure | None = None
    last_failure: Failure | None = None
    """How the attempt itself failed, where the job's failure says something else (`max_attempts`)."""
    result: str | None = None
    warning: str | None = None
    triage: Triage | None = None
    fingerprint: str | None = None
    """The name of its cause, which letters of the same cause share."""
    policy_snapshot: str | None = None
    """The policy that decided its triage."""
    landed: Landed | None = None
    """Whether the effect may exist, where no failure says it."""
    possible_duplicate: bool = False
    gate: str | None = None
    superseded_by: str | None = None
    by: str | None = None
    reason: str | None = None
    """Who asked for this and why, where a person did."""
    decision: Decision | None = None
    """What is chained when this lands, where the move alone does not tell it; job, `by` and `reason` are filled in."""
    files: Filing | None = None
    """The approval that is asked for with this."""
    answers: Answer | None = None
    """The approval this carries out or turns down: unless it still stands where it must, nothing moves."""
    leg: Leg | None = None
    """The redrive this is a part of: unless that still runs, nothing moves."""
    ruled_under: str | None = None
    """The policy that allowed this, by its hash: unless it is still in force, nothing moves."""
    looks: tuple[Sighting, ...] = ()
    """What was seen of the job's effects."""
    look_failed: bool = False
    """Whether a look only failed for now: how often that may happen in a row is counted."""
    progress: bool = False
    """Whether the attempt got further than any before it, which opens a round."""
    reopens: tuple[str, ...] = ()
    """The effects whose receipts are no longer believed: somebody looks for them before a repeat."""
    dependency: str | None = None
    word: Word | None = None
    """The breaker of what the attempt depends on, and what its end says about that."""
    waits: bool = False
    """Whether it goes back to wait for the dependency rather than for a backoff."""
    refused: bool = False
    """Whether its receiver refused it for now and said when to come back."""
    hold: HoldRequest | None = None
    """What its receiver asked of other jobs, too: to wait as long."""
    uses: Use | None = None
    """The consent this takes a use of, which nobody else can have then."""
    origin: Origin | None = None
    """The session that is told of it, where whoever decided knows it; the store finds out about other ends."""
    suspect: bool | None = None
    """Whether it must run alone from now on; None leaves that as it is."""
    in_place: bool = False
    """Whether it goes back to its old place in the line, rather than to the end."""
    plain: bool = False
    """Whether it completes the first attempt of a job that no wing has a part in."""

    def __post_init__(self) -> None:
        """Refuse a move the table does not have: a decision that cannot be is a bug of ours."""
        if self.source not in MOVES[self.move][0]:
            raise ValueError(f"{self.move} cannot leave {self.source}")

    @property
    def target(self) -> State:
        """The state this ends in."""
        return MOVES[self.move][1]

    @property
    def effect(self) -> Landed | None:
        """Whether the effect may exist, as far as this tells."""
        return self.landed if self.failure is None else self.failure.landed


def unwanted(decided: Transition) -> Transition:
    """Let a job end cancelled that somebody cancelled while it ran, unless its attempt succeeded.

    What is known of its effect is kept, but nothing is repeated.
    """
    if decided.target in FINAL:
        return decided
    return msgspec.structs.replace(
        decided,
        move=Move.CANCEL,
        warning="cancelled while it ran",
        triage=None,
        fingerprint=None,
        policy_snapshot=None,
        files=None,
        possible_duplicate=False,
    )


VIEWS = (*State, "scheduled", "retry_pending", "parked")
"""What `view` may say."""


def view(state: str, *, attempts: int, due_later: bool, parked: bool) -> str:
    """Give the state as a person reads it."""
    if state != State.QUEUED:
        return state
    if parked:
        return "parked"
    if attempts:
        return "retry_pending"
    return "scheduled" if due_later else State.QUEUED
