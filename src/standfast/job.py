"""The job in three forms: as a caller enqueues it, as a worker holds it, and as a receipt. People see a `JobView`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, NamedTuple, NotRequired, TypedDict, get_args

import msgspec

from standfast.failure import Landed
from standfast.rules import Coalesce, ReplayMode

Risk = Literal["low", "medium", "high", "critical"]
RISKS: tuple[Risk, ...] = get_args(Risk)
"""From the lowest to the highest."""
HTTP = "http"
"""The name of a handler that every queue has: its payloads are HTTP requests, which it sends."""
IDEMPOTENT = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"})
"""The HTTP methods that may be repeated without harm."""
MOST_LABELS = 64
"""How many labels a job may have. When jobs are folded together, the newest labels stay."""
QueueReason = Literal["event", "retry", "deferred_submit", "scheduled_job", "workflow_step"]


def higher(one: Risk | None, other: Risk | None) -> Risk | None:
    """Return the higher of two risks, such as the handler's and the caller's. None is the lowest."""
    return max(one, other, key=(None, *RISKS).index)


class Details(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What is known about a job besides its payload, and does not affect any SQL statement."""

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
    """The actors who amended the payload."""
    also_requested_by: tuple[str, ...] = ()
    """The requesters of jobs that were folded into this one."""
    coalesce: Coalesce | None = None
    """How it is folded with a waiting job of its thread, if its caller said so; else its queue decides."""
    newest_counts: bool = False
    """Whether only the newest of its thread matters (ticks, GitHub events): then it folds unless its queue collects."""
    trace: str | None = None
    """The `traceparent` of the span it was enqueued in, if tracing is on."""

    @property
    def wanted_by(self) -> tuple[str, ...]:
        """Everyone who requested this job or changed its payload. None of them may approve it."""
        return (*self.requesters, *self.amenders)

    @property
    def requesters(self) -> tuple[str, ...]:
        """Everyone who requested this job, its owner first. Each of them may read it."""
        return tuple(each for each in (self.requester, *self.also_requested_by) if each is not None)


class NewJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job to be stored. The caller mints its id, so that a job that is sent twice is stored once.

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
    """When the work was first wanted, if that was before it was enqueued. It gives no earlier place in the queue."""
    body_key: str | None = None
    """A second key, made from the content: a webhook that arrives again with another delivery id is the same job."""


class Folded(TypedDict):
    """A payload that was replaced when another job was folded into a waiting one: its hash, key and trigger."""

    at: datetime
    by: str
    sha256: str
    key: NotRequired[str]
    trigger: NotRequired[str]


class Coalesced(TypedDict):
    """What was folded into a job: how many jobs, and the last of them."""

    count: int
    last: list[Folded]


ASKED = "asked"
"""The verdict on an open intent after a person replayed the job: they accept that the effect may happen twice."""
DOUBTED = "doubted"
"""The verdict on an effect that was recorded as done, and that its own handler did not find."""
UNKEPT = "unkept"
"""The verdict on an effect that is done, but whose value could not be stored."""
OTHER_ARGUMENTS = "\x1f"
"""Separates the name that a handler used from the hash of its arguments, in a ledger key."""
STEP = "s"
"""The prefix of the hash in the key of a step. A step declares no effect, so it cannot be verified."""


class LedgerNote(msgspec.Struct, frozen=True, gc=False):
    """One write to the ledger: an effect is `begun` before it happens, `done` after it, `none` if it did not happen."""

    n: int
    token: int
    id: str
    name: str
    state: Literal["begun", "done", "none"]
    receipt: str | None = None
    verdict: str | None = None
    attempt: int = 0


class LedgerEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One effect in a job's ledger: begun, done with its receipt (JSON text), or only seen by a look.

    Field order is the statement's.
    """

    name: str
    state: Literal["begun", "done", "seen"]
    receipt: str | None = None
    verdict: str | None = None
    late: int = 0
    """Whether its receipt was written by a worker that had already lost the job."""
    left_out: int = 0
    """The size of a receipt that is too large to come with the claim; it is read when the handler asks for it."""
    at: float = 0.0
    attempt: int | None = None
    """When it was last written or looked for, and by which attempt. Set only if a job is shown."""

    @property
    def label(self) -> str:
        """The name that its handler used."""
        return label_of(self.name)

    @property
    def arguments(self) -> str | None:
        """The hash of the arguments that it was called with, if it was called."""
        return self.name.partition(OTHER_ARGUMENTS)[2].removeprefix(STEP) or None

    @property
    def is_step(self) -> bool:
        """Whether it is a step, which is run again if its outcome is unknown."""
        return f"{OTHER_ARGUMENTS}{STEP}" in self.name


def label_of(key: str) -> str:
    """Return the name that a handler used, from a ledger key."""
    return key.partition(OTHER_ARGUMENTS)[0]


class Parent(msgspec.Struct, frozen=True, gc=False):
    """An earlier step of the job's workflow: its number and its result (JSON text), unless that is too large."""

    n: int
    result: str | None = None
    left_out: bool = False


class Claim(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job as a worker holds it: the right to run one attempt with this token. Field order is the statement's."""

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
    """Whether the effect of an earlier attempt may exist."""
    occupies: list[str] | None = None
    """The limits it takes a place of, and the breaker that it probes."""
    ledger: list[LedgerEntry] | None = None
    """The effects of earlier attempts."""
    first_seen_at: float = 0.0
    replays: int = 0
    """How often it was replayed by a person or a policy."""
    pending: int | None = None
    """0 for a step of a workflow, whose earlier steps are all completed; None for other jobs."""
    due_at: float = 0.0
    refusals: int = 0
    """How often in a row its receiver has asked to wait."""
    progress_start: int | None = None
    """The number of the last attempt that made progress; only those after it count against the limit."""
    failed_looks: int = 0
    """How many looks for its effects failed in a row."""
    progressed: int = 0
    """Whether this attempt made progress: it recorded a receipt or a step that was not there before."""
    suspect: int | None = None
    """Whether it ran when its worker died. It may have killed the worker, so it is run alone."""
    handler_risk: Risk | None = None
    parents: dict[str, Parent] | None = None
    """The earlier steps of its workflow, by name."""
    plain: bool = False
    """Whether this is the first attempt of a job that involves no wing, in a queue without limits."""

    @property
    def repeat(self) -> int:
        """The number of the repeat that would follow this attempt, from 1. Progress starts the count again."""
        return 1 if self.progressed else self.attempts - self._counted_from

    @property
    def _counted_from(self) -> int:
        return max(self.round_start, self.progress_start or 0)

    @property
    def allowed(self) -> int:
        """How many attempts the job has, counted from its last replay or progress."""
        return self.max_attempts - self._counted_from

    @property
    def exhausted(self) -> bool:
        """Whether no attempt is left. An attempt that made progress does not count."""
        return self.attempts >= self.max_attempts and not self.progressed

    @property
    def identity(self) -> str:
        """What identifies this work to receivers on every attempt and replay. An amended payload is different work."""
        return identity_of(self.id, self.details.amended)

    @property
    def log_fields(self) -> dict[str, str | int | None]:
        """What a log line about this attempt contains, each as a separate field."""
        named: dict[str, str | int | None] = {
            "job_id": self.id,
            "queue": self.queue,
            "handler": self.handler,
            "attempt": self.attempts,
        }
        return {**named, "worker": self.worker, "session": self.details.session}

    @property
    def entered_before(self) -> bool:
        """Whether this is a repeat: an attempt was spent before, or its effect may exist."""
        return self.attempts > 1 or self.landed == Landed.MAYBE

    @property
    def never_ran(self) -> bool:
        """Whether it never ran before and was never replayed."""
        return not self.entered_before and self.replays == 0

    @property
    def replayed(self) -> bool:
        """Whether this is the first attempt after a replay."""
        return self.round_start > 0 and self.attempts - self.round_start == 1

    @property
    def open_intents(self) -> tuple[str, ...]:
        """The effects and steps that have begun and are not known to be done."""
        return tuple(entry.label for entry in self.ledger or () if entry.state == "begun")

    @property
    def open_steps(self) -> bool:
        """Whether one of the open intents is a step, which cannot be verified."""
        return any(entry.state == "begun" and entry.is_step for entry in self.ledger or ())

    @property
    def keeps_ledger(self) -> bool:
        """Whether the ledger has an effect of this job; then a repeat skips every effect that has a receipt.

        Steps do not count, because the handler may do more than they record.
        """
        return keeps_ledger(self.ledger)

    @property
    def landed_by_ledger(self) -> Landed | None:
        """Whether an effect without a receipt may exist, according to the ledger; None if the ledger has no effect."""
        if self.open_intents:
            return Landed.MAYBE
        return Landed.NO if self.keeps_ledger else None

    @property
    def repeatable(self) -> bool:
        """Whether it may run again automatically if its effect may exist, as far as the job itself shows.

        An HTTP request may if its method is idempotent, or if the caller gave a key that the receiver can compare.
        """
        return may_repeat(self.handler, self.idempotency_key, self.payload)


def identity_of(job_id: str, amended: int) -> str:
    """Return what identifies the work of a job to receivers, given how often its payload was amended."""
    return f"{job_id}~g{amended}" if amended else job_id


def may_repeat(handler: str, idempotency_key: str | None, payload: str) -> bool:
    """Return whether work whose effect may exist may be done again, as far as the work itself shows."""
    return handler != HTTP or idempotency_key is not None or _method(payload) in IDEMPOTENT


def keeps_ledger(entries: Iterable[LedgerEntry] | None) -> bool:
    """Return whether a ledger has an effect that was begun; steps do not count."""
    return any(entry.state != "seen" and not entry.is_step for entry in entries or ())


class _Method(msgspec.Struct):
    method: str = ""


def _method(payload: str) -> str:
    try:
        return msgspec.json.decode(payload, type=_Method).method
    except msgspec.DecodeError:  # not a request at all
        return ""


class Receipt(NamedTuple):
    """What `enqueue` returns. The job is on disk by then."""

    id: str | None
    """The job's id; None only if `outcome` is `fallback`: `otherwise=` was called, and there is no job."""
    outcome: Literal["accepted", "duplicate", "coalesced", "spooled", "fallback", "deferred"]
    state: str | None
    """The job's state; None if it is not in the store yet, or no longer."""
