"""The job in three shapes: as it is handed in, as a receipt, as a worker holds it. People see it as in `views`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, NamedTuple, NotRequired, TypedDict, get_args

import msgspec

from standfast.failure import Landed
from standfast.rules import ReplayMode

Risk = Literal["low", "medium", "high", "critical"]
RISKS: tuple[Risk, ...] = get_args(Risk)
"""From the least to the most."""
HTTP = "http"
"""The name of the handler that every queue has: its jobs are requests to be sent."""
IDEMPOTENT = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"})
"""The methods that do the same however often they are sent."""
MOST_LABELS = 64
"""How many labels a job has; of more, the newest stay."""
QueueReason = Literal["event", "retry", "deferred_submit", "scheduled_job", "workflow_step"]


def higher(one: Risk | None, other: Risk | None) -> Risk | None:
    """Give the higher of two risks: a job's is its handler's or its caller's. None is below all."""
    return max(one, other, key=(None, *RISKS).index)


class Details(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What comes with a job and no statement decides by."""

    requester: str | None = None
    session: str | None = None
    risk: Risk | None = None
    labels: dict[str, str] | None = None
    queue_reason: QueueReason = "event"
    collected: bool = False
    """Whether the payload is a list of payloads, one for each job that was folded into this one, itself first."""
    amended: int = 0
    """How often the payload was amended: the job's generation."""
    amenders: tuple[str, ...] = ()
    """Who did."""
    also_requested_by: tuple[str, ...] = ()
    """Who else asked for the work: their jobs were folded into this one."""
    trace: str | None = None
    """The `traceparent` of the span it was enqueued in, where traces are on."""

    @property
    def wanted_by(self) -> tuple[str, ...]:
        """Everybody whose work this is: who requested it, and who changed it. None of them may approve it."""
        return (*self.requesters, *self.amenders)

    @property
    def requesters(self) -> tuple[str, ...]:
        """Everybody who asked for the work, the owner first. Each of them may read it."""
        return tuple(each for each in (self.requester, *self.also_requested_by) if each is not None)


class NewJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job on its way in. Its id is minted by the caller, so that handing it in twice stores it once.

    `payload` and `details` are JSON text; `at`, `expires` and `first_seen_at` are wall time.
    """

    id: str
    queue: str
    handler: str
    payload: str
    details: str = "{}"
    priority: int | None = None
    delay: float = 0.0
    at: float | None = None
    expires: float | None = None
    budget: int | None = None
    lease: float | None = None
    idempotency_key: str | None = None
    fingerprint: str | None = None
    thread_key: str | None = None
    first_seen_at: float | None = None
    """Since when it is wanted, if that is longer than it is here. It gives no place in the line."""
    body_key: str | None = None
    """Another key of a job that has one: what came from outside is known by its content too, whatever it is called."""


class Folded(TypedDict):
    """What a newcomer replaced when it was folded into a waiting job: its hash, key and trigger."""

    at: datetime
    by: str
    sha256: str
    key: NotRequired[str]
    trigger: NotRequired[str]


class Coalesced(TypedDict):
    """What was folded into a job: how many, and the last of them."""

    count: int
    last: list[Folded]


ASKED = "asked"
"""The verdict on an open intent once a person had the job run again: their word that it may be done again."""
DOUBTED = "doubted"
"""The verdict on an effect that counted as done until its own handler could not find it."""
UNKEPT = "unkept"
"""The verdict on an effect that is done, and whose value could not be kept."""
OTHER_ARGUMENTS = "\x1f"
"""Stands in a ledger key between the name that a handler used and the hash of the arguments it gave."""
STEP = "s"
"""Begins the hash in the key of a step: nothing is declared about it, and it cannot be verified."""


class LedgerNote(msgspec.Struct, frozen=True, gc=False):
    """What an attempt has the ledger write of an effect: begun before it, done after it, none if nothing came of it."""

    n: int
    token: int
    id: str
    name: str
    state: Literal["begun", "done", "none"]
    receipt: str | None = None
    verdict: str | None = None
    attempt: int = 0


class LedgerEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One effect in a job's ledger: begun, or done with its receipt (JSON text). Field order is the statement's.

    One that was only verified has neither intent nor receipt.
    """

    name: str
    state: Literal["begun", "done", "seen"]
    receipt: str | None = None
    verdict: str | None = None
    late: int = 0
    """Whether its receipt came from a worker that had lost the job."""
    left_out: int = 0
    """The bytes of a receipt that is too big to be brought along; it is read on demand."""
    at: float = 0.0
    attempt: int | None = None
    """When it was last written or looked for, and by which attempt, where a job is read."""

    @property
    def label(self) -> str:
        """The name that its handler used."""
        return label_of(self.name)

    @property
    def arguments(self) -> str | None:
        """The hash of the arguments it was called with, where it was called."""
        return self.name.partition(OTHER_ARGUMENTS)[2].removeprefix(STEP) or None

    @property
    def is_step(self) -> bool:
        """Whether nothing is declared about it: it is run again if its outcome is unknown."""
        return f"{OTHER_ARGUMENTS}{STEP}" in self.name


def label_of(key: str) -> str:
    """Give the name that a handler used for what has this key in the ledger."""
    return key.partition(OTHER_ARGUMENTS)[0]


class Parent(msgspec.Struct, frozen=True, gc=False):
    """A step that came before another one: its number and its result (JSON text), or that it is too big to bring."""

    n: int
    result: str | None = None
    left_out: bool = False


class Claim(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job as its worker holds it: the right to run it now, under this token. Field order is the statement's."""

    n: int
    token: int
    id: str
    queue: str
    handler: str
    worker: str
    payload: str
    attempts: int
    max_attempts: int
    round_start: int
    lease: float
    timeout: float | None
    replay_mode: ReplayMode
    claimed_at: float
    entered_at: float
    expires_at: float | None
    idempotency_key: str | None
    details: Details
    gate: str | None = None
    coalesced: Coalesced | None = None
    landed: Landed | None = None
    """Whether an earlier attempt may have left its effect."""
    occupies: list[str] | None = None
    """The gates it takes a place of: limits, and the breaker it is the probe of."""
    ledger: list[LedgerEntry] | None = None
    """What earlier attempts did to the world."""
    first_seen_at: float = 0.0
    replays: int = 0
    """How often it was replayed, by whomever."""
    pending: int | None = None
    """How many steps before it are not completed: none, as it was claimed; null for a job that is no step."""
    due_at: float = 0.0
    refusals: int = 0
    """How often in a row its receiver refused it for now and said when to come back."""
    progress_start: int | None = None
    """How many attempts there were when one last made progress: attempts count from there."""
    failed_looks: int = 0
    """How many looks in a row failed for now."""
    progressed: int = 0
    """Whether this attempt made progress: it recorded at least one receipt or step that was not there before."""
    suspect: int | None = None
    """Whether it ran when a worker died: it may have killed it, and is run alone."""
    handler_risk: Risk | None = None
    parents: dict[str, Parent] | None = None
    """By name, the steps of its workflow that came before it."""
    plain: bool = False
    """Whether this is the first attempt of a job that no wing has a part in, in a queue that nothing holds back."""

    @property
    def repeat(self) -> int:
        """Number the repeat that would follow this attempt in its round, from 1. Progress opens a round."""
        return 1 if self.progressed else self.attempts - self._counted_from

    @property
    def _counted_from(self) -> int:
        return max(self.round_start, self.progress_start or 0)

    @property
    def allowed(self) -> int:
        """How many attempts a round has."""
        return self.max_attempts - self._counted_from

    @property
    def exhausted(self) -> bool:
        """Whether this was the round's last attempt: one that made progress is not counted."""
        return self.attempts >= self.max_attempts and not self.progressed

    @property
    def identity(self) -> str:
        """What names this work to receivers, the same on every attempt and replay; an amended payload is other work."""
        return f"{self.id}~g{self.details.amended}" if self.details.amended else self.id

    @property
    def entered_before(self) -> bool:
        """Whether this is a repeat: an earlier attempt was spent, or its effect may have landed."""
        return self.attempts > 1 or self.landed == Landed.MAYBE

    @property
    def never_ran(self) -> bool:
        """Whether nothing of it ran before, and it was never replayed."""
        return not self.entered_before and self.replays == 0

    @property
    def replayed(self) -> bool:
        """Whether this is the first attempt of a round that a replay opened."""
        return self.round_start > 0 and self.attempts - self.round_start == 1

    @property
    def open_intents(self) -> tuple[str, ...]:
        """The effects and steps that were begun and are not known to be done."""
        return tuple(entry.label for entry in self.ledger or () if entry.state == "begun")

    @property
    def open_steps(self) -> bool:
        """Whether a step was begun, which cannot be verified."""
        return any(entry.state == "begun" and entry.is_step for entry in self.ledger or ())

    @property
    def keeps_ledger(self) -> bool:
        """Whether an attempt wrote an intent for one of its effects: then what has a receipt is skipped, not repeated.

        Steps do not count: nothing says that they are all that it does.
        """
        return keeps_ledger(self.ledger)

    @property
    def landed_by_ledger(self) -> Landed | None:
        """Whether an unrecorded effect may exist, by the ledger; None if no effect is in the ledger."""
        if self.open_intents:
            return Landed.MAYBE
        return Landed.NO if self.keeps_ledger else None

    @property
    def repeatable(self) -> bool:
        """Whether it may run again by itself after `landed: maybe`: its handler's mode decides, but for a request.

        A request may if its method does the same however often, or if the caller's key lets the receiver tell.
        """
        return self.handler != HTTP or self.idempotency_key is not None or _method(self.payload) in IDEMPOTENT


def keeps_ledger(entries: Iterable[LedgerEntry] | None) -> bool:
    """Tell whether an intent was written for an effect that a handler declares."""
    return any(entry.state != "seen" and not entry.is_step for entry in entries or ())


class _Method(msgspec.Struct):
    method: str = ""


def _method(payload: str) -> str:
    try:
        return msgspec.json.decode(payload, type=_Method).method
    except msgspec.DecodeError:  # no request at all
        return ""


class Receipt(NamedTuple):
    """What `enqueue` answers: on disk when you read this."""

    id: str | None
    outcome: Literal["accepted", "duplicate", "coalesced", "spooled", "fallback", "deferred"]
    state: str | None
    """Where the job is, a `State`; None while it is not in the store yet, or not any more."""
