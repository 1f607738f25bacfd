"""The states of a job, the moves between them, and what a move leaves behind.

What a crash leaves. A job's row has all that a restart needs: its state, its token, and the worker that holds it.
Every change is one transaction, so a process can only die before its commit or after it.

- Before the job is stored: nothing is there, and the caller has no receipt. After that, before the receipt arrives:
  the job is there. A caller that tries again with the same `idempotency_key` gets the same job, without a key a second.
- Before a claim is committed: the job is queued. After that, whether the handler is not entered yet, is running, or has
  returned: the job is running under its token, its attempt is counted (and given back if its worker or process held
  other jobs too), and effects are in the ledger as begun or done. The sweeper, which runs in every worker, finds that
  the worker is gone and settles the attempt as `Lapsed`. It does not know how far the handler got, so the effect may
  exist unless the ledger says otherwise: `replay` runs the job again, alone, unless it is an HTTP request that must not
  be repeated, which becomes a letter; `verify_first` looks first; `manual` makes it a letter.
- A claim whose answer was lost, while its worker lives: at a heartbeat the worker finds a job that it does not have,
  and gives it back, unspent.
- Before the end is committed: as above, the handler may run again. After that: state, history, ending, notices and the
  wings' own rows are all there, and only what follows the commit is lost: the log line, `on_failure`, the note of the
  audit's head. If the answer to the commit is lost, the store applies the end again; a job that already is where the
  move leads, under this token, counts as moved.
- A worker that was only silent and comes back cannot move the job: its state refuses the end until the job is claimed
  again, and after that its token does. The worker's next heartbeat stops the attempt, except a plain function. A
  receipt that it brings is still stored, marked late.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from secrets import token_hex
from typing import Any, TypeVar

import msgspec

from standfast.failure import Failure, Landed
from standfast.printable import printable

T = TypeVar("T")


class State(StrEnum):
    """Where a job is. `completed` and `cancelled` are final; a letter is a job that is `dead` or `held`."""

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
"""The states of letters: nothing runs them unless a policy or a person replays them."""
BIRTHS = frozenset({State.QUEUED, State.WAITING, State.RUNNING, State.DEAD, State.HELD})
"""The states that a job can be stored in."""
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
    """Draw the moves as a Mermaid state diagram, for the docs."""
    ways: dict[tuple[State, State], list[Move]] = {}
    for move, (sources, target) in MOVES.items():
        for source in sorted(sources, key=list(State).index):
            ways.setdefault((source, target), []).append(move)
    lines = [f"[*] --> {state}" for state in State if state in BIRTHS]
    lines += [f"{source} --> {target}: {', '.join(moves)}" for (source, target), moves in ways.items()]
    lines += [f"{state} --> [*]" for state in State if state in FINAL]
    return "\n    ".join(["stateDiagram-v2", *lines]) + "\n"


class JobRef(msgspec.Struct, frozen=True):
    """A job's number, token and state as just read. A decision about it is applied only if they are still the same."""

    n: int
    token: int
    id: str
    queue: str
    state: State
    gate: str | None = None

    def moved(self, move: Move, *carries: Carried, **what: Any) -> Transition:
        """Decide on a move from this state."""
        here = (self.n, self.token, self.id, self.queue, move, self.state)
        return Transition(*here, gate=self.gate, carries=carries, **what)


class Carried(msgspec.Struct, frozen=True):
    """Something that a Transition carries for one feature, which finds it by its type: `moved.rider(Filing)`.

    The spine writes down what these properties return, and knows nothing else about it. Each has a default, so a
    feature overrides only those that it needs.
    """

    @property
    def history_word(self) -> str | None:
        """The history's name for this move, if it is not the move's own name."""
        return None

    @property
    def history_marks(self) -> Mapping[str, Any]:
        """Additional fields for the history line of this move."""
        return {}

    @property
    def ending(self) -> Mapping[str, Any]:
        """The columns of the job's ending that this sets; see `spine.apply.Ending`."""
        return {}

    def next_step(self, _end: Transition) -> tuple[int, str] | None:
        """Return the log level and what the log says happens next, if this knows better than the move."""
        return None


class AskedBy(Carried, frozen=True):
    """Who asked for this move and why, if it was a person, a policy or another program."""

    by: str | None = None
    reason: str | None = None
    mark: str = msgspec.field(default_factory=lambda: token_hex(6))
    """Distinguishes this decision from every other, in case it is sent again."""

    @property
    def history_marks(self) -> Mapping[str, Any]:
        """Say who asked, why, and which decision it was."""
        said = {"by": self.by, "reason": self.reason, "mark": self.mark}
        return {name: value for name, value in said.items() if value is not None}


def asked_by(by: str | None, reason: str | None = None) -> tuple[AskedBy, ...]:
    """Return what a move carries about who asked for it; nothing if nobody is named."""
    if by is None and reason is None:
        return ()
    return (AskedBy(by and printable(by), reason and printable(reason)),)


class AttemptFailure(Carried, frozen=True):
    """How the attempt itself failed, if the job's own failure says something else, such as `max_attempts`."""

    failure: Failure


class PossibleDuplicate(Carried, frozen=True):
    """The effect may exist already, and the repeat has no way to find out."""

    @property
    def history_marks(self) -> Mapping[str, Any]:
        """Mark the history line."""
        return {"possible_duplicate": True}


class Suspicion(Carried, frozen=True):
    """Whether the job must run alone from now on, because it ran when its worker died."""

    suspect: bool
    in_place: bool = False
    """Whether it goes back to its old place in the line, rather than to the end."""


def duplicate_if(possible: bool) -> tuple[PossibleDuplicate, ...]:  # noqa: FBT001 - the argument is the question itself
    """Return the mark if a repeat may do something a second time."""
    return (PossibleDuplicate(),) if possible else ()


class Transition(msgspec.Struct, frozen=True):
    """One decided change of a job. It is applied only while the job still has this token and this source state.

    These fields are what every move needs. What a feature adds is in `carries`.
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
    """Seconds until the job is due again, counted from the commit."""
    spends: int = 0
    """Added to the job's attempts: -1 gives this one back."""
    defers: int = 0
    """Added to the job's deferrals."""
    begun: bool = True
    """Whether its handler was entered; an attempt that was not begun has done nothing."""
    failure: Failure | None = None
    landed: Landed | None = None
    """Whether the effect may exist, if there is no failure to say so."""
    result: str | None = None
    warning: str | None = None
    gate: str | None = None
    """The gate of the job's thread, if it has one."""
    plain: bool = False
    """Whether it completes the first attempt of a job that involves no wing."""
    carries: tuple[Carried, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a move that is not in the table: an impossible decision is a bug of ours."""
        if self.source not in MOVES[self.move][0]:
            raise ValueError(f"{self.move} cannot leave {self.source}")

    @property
    def target(self) -> State:
        """The state that this move ends in."""
        return MOVES[self.move][1]

    def rider(self, kind: type[T]) -> T | None:
        """Return what this carries of a type, or None."""
        for each in self.carries:
            if isinstance(each, kind):
                return each
        return None

    def carrying(self, *more: Carried) -> Transition:
        """Return this with more to carry. It carries one of each type: a new one replaces the old."""
        kept = self.without(*map(type, more)).carries
        return msgspec.structs.replace(self, carries=(*kept, *more))

    def without(self, *kinds: type[Carried]) -> Transition:
        """Return this without what it carries of these types."""
        return msgspec.structs.replace(self, carries=tuple(each for each in self.carries if type(each) not in kinds))

    @property
    def effect(self) -> Landed | None:
        """Whether the effect may exist, as far as this move says."""
        return self.landed if self.failure is None else self.failure.landed

    @property
    def actor(self) -> str | None:
        """Who asked for this move, if known."""
        asked = self.rider(AskedBy)
        return None if asked is None else asked.by

    @property
    def attempt_failure(self) -> Failure | None:
        """How the attempt that this move ends failed."""
        own = self.rider(AttemptFailure)
        return self.failure if own is None else own.failure


VIEWS = (*State, "scheduled", "retry_pending", "parked")
"""All the values that `view` returns."""


def view(state: str, *, attempts: int, due_later: bool, parked: bool) -> str:
    """Return the state as people see it: a queued job may be scheduled, parked, or waiting for a repeat."""
    if state != State.QUEUED:
        return state
    if parked:
        return "parked"
    if attempts:
        return "retry_pending"
    return "scheduled" if due_later else State.QUEUED


class NoticeKind(StrEnum):
    """The kinds of notices. Their values are stored in the journal and in counters, and users filter by them."""

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
    # of the journal itself: notices are missing here. Every reader gets it, whatever kinds it asked for
    GAP = "gap"


ABOUT = {
    "redrive_": "redrive",
    "schedule_": "schedule",
    "workflow_": "workflow",
    "registry_": "handler",
    "alert_": "alert",
}
"""What a notice is about if not a job or a queue, by the first word of its kind."""
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
"""The notice of each move."""
