"""The states of a job, the moves between them (one table, from which the docs' diagram is drawn), and what is told."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from standfast.failure import Action, Failure, Landed

T = TypeVar("T")


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


class JobRef(msgspec.Struct, frozen=True):
    """A job's number, token and state as just read. A decision about it is applied only if they are unchanged."""

    n: int
    token: int
    id: str
    queue: str
    state: State
    gate: str | None = None

    def moved(self, move: Move, **what: Any) -> Transition:
        """Decide on a move from here."""
        return Transition(self.n, self.token, self.id, self.queue, move, self.state, gate=self.gate, **what)


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
    """When it is replayed by itself: queue time where it is stored, a moment where it is shown."""
    note: str | None = None
    """Why an earlier rule that fits did not decide."""


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
    refused: bool = False
    """Whether its receiver refused it for now and said when to come back."""
    suspect: bool | None = None
    """Whether it must run alone from now on; None leaves that as it is."""
    in_place: bool = False
    """Whether it goes back to its old place in the line, rather than to the end."""
    plain: bool = False
    """Whether it completes the first attempt of a job that no wing has a part in."""
    carries: tuple[Any, ...] = ()
    """What is written with it by wings, each in a value of its own type: `of` finds it."""

    def __post_init__(self) -> None:
        """Refuse a move the table does not have: a decision that cannot be is a bug of ours."""
        if self.source not in MOVES[self.move][0]:
            raise ValueError(f"{self.move} cannot leave {self.source}")

    @property
    def target(self) -> State:
        """The state this ends in."""
        return MOVES[self.move][1]

    def rider(self, kind: type[T]) -> T | None:
        """Give what this carries for the wing that has this type."""
        for each in self.carries:
            if isinstance(each, kind):
                return each
        return None

    def carrying(self, *more: object) -> Transition:
        """Give this with more to carry; of each type there is one, and the new one replaces the old."""
        kept = self.without(*map(type, more)).carries
        return msgspec.structs.replace(self, carries=(*kept, *more))

    def without(self, *kinds: type) -> Transition:
        """Give this without what it carries of these types."""
        return msgspec.structs.replace(self, carries=tuple(each for each in self.carries if type(each) not in kinds))

    @property
    def effect(self) -> Landed | None:
        """Whether the effect may exist, as far as this tells."""
        return self.landed if self.failure is None else self.failure.landed


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


class NoticeKind(StrEnum):
    """What a notice can tell: its values stand in journals and counters, and in the filters of those who follow."""

    # of a job
    ENQUEUED = "enqueued"
    COALESCED = "coalesced"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    RETRY = "retry"
    SNOOZED = "snoozed"
    GIVEN_BACK = "given_back"
    DEAD_LETTER = "dead_letter"
    HELD = "held"
    RELEASED = "released"
    REPLAYED = "replayed"
    RESOLVED = "resolved"
    CANCELLED = "cancelled"
    CANCEL_ASKED = "cancel_asked"
    HURRIED = "hurried"
    DISCARDED = "discarded"
    QUARANTINED = "quarantined"
    AMENDED = "amended"
    PURGED = "purged"
    EVICTED = "evicted"
    IMPORTED = "imported"
    GAVE_UP = "gave_up"
    INBOX = "inbox"
    REPLAY_DENIED = "replay_denied"
    # of its approval
    APPROVAL_ASKED = "approval_asked"
    APPROVED = "approved"
    APPROVAL_USED = "approval_used"
    DENIED = "denied"
    APPROVAL_EXPIRED = "approval_expired"
    APPROVAL_VOID = "approval_void"
    # of its session's consent
    CONSENT_ASKED = "consent_asked"
    CONSENT_GIVEN = "consent_given"
    CONSENT_DENIED = "consent_denied"
    CONSENT_REVOKED = "consent_revoked"
    # of a queue
    PAUSED = "paused"
    RESUMED = "resumed"
    DEPTH_WARNING = "depth_warning"
    DEPTH_NORMAL = "depth_normal"
    BREAKER_OPENED = "breaker_opened"
    BREAKER_CLOSED = "breaker_closed"
    GATE_CLOSED = "gate_closed"
    GATE_BROKEN = "gate_broken"
    GATE_OPENED = "gate_opened"
    # of the policy
    POLICY_CHANGED = "policy_changed"
    POLICY_BROKEN = "policy_broken"
    # of a handler that a probe disabled or brought back
    REGISTRY_DISABLED = "registry_disabled"
    REGISTRY_AUTO_RECOVERED = "registry_auto_recovered"
    # of an alert
    ALERT_STARTED = "alert_started"
    ALERT_ENDED = "alert_ended"
    # of a redrive
    REDRIVE_STARTED = "redrive_started"
    REDRIVE_APPROVAL_REQUIRED = "redrive_approval_required"
    REDRIVE_PAUSED = "redrive_paused"
    REDRIVE_RESUMED = "redrive_resumed"
    REDRIVE_CANCELLED = "redrive_cancelled"
    REDRIVE_HALTED = "redrive_halted"
    REDRIVE_FINISHED = "redrive_finished"
    # of a workflow
    WORKFLOW_STARTED = "workflow_started"
    WORKFLOW_RESUMED = "workflow_resumed"
    WORKFLOW_STUCK = "workflow_stuck"
    WORKFLOW_COMPLETED = "workflow_completed"
    WORKFLOW_CANCELLED = "workflow_cancelled"
    # of a schedule
    SCHEDULE_ADDED = "schedule_added"
    SCHEDULE_CHANGED = "schedule_changed"
    SCHEDULE_REMOVED = "schedule_removed"
    SCHEDULE_PAUSED = "schedule_paused"
    SCHEDULE_RESUMED = "schedule_resumed"
    SCHEDULE_MISSED = "schedule_missed"
    SCHEDULE_ENDED = "schedule_ended"
    # of the journal itself: notices are missing here; whoever follows gets it, whatever else they asked for
    GAP = "gap"


ABOUT = {
    "redrive_": "redrive",
    "schedule_": "schedule",
    "workflow_": "workflow",
    "registry_": "handler",
    "alert_": "alert",
}
"""What notices are about that name no job, by how they begin."""
TOLD = {
    Move.COMPLETE: NoticeKind.COMPLETED,
    Move.RETRY: NoticeKind.RETRY,
    Move.SNOOZE: NoticeKind.SNOOZED,
    Move.GIVE_BACK: NoticeKind.GIVEN_BACK,
    Move.DIE: NoticeKind.DEAD_LETTER,
    Move.HOLD: NoticeKind.HELD,
    Move.REPLAY: NoticeKind.REPLAYED,
    Move.RESOLVE: NoticeKind.RESOLVED,
    Move.RELEASE: NoticeKind.RELEASED,
    Move.DISCARD: NoticeKind.DISCARDED,
    Move.CANCEL: NoticeKind.CANCELLED,
}
"""The notice each move is told as."""
