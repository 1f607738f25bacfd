"""How an attempt failed, and the catalogue of reasons with advice for each."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Class(StrEnum):
    """Whether a retry can help, and nothing else. `unknown` means unclassified; it is repeated like `transient`."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    UNKNOWN = "unknown"


class Landed(StrEnum):
    """May the side effect exist?"""

    NO = "no"
    MAYBE = "maybe"


class Verdict(StrEnum):
    """What a look at the world found out about an effect, or about all effects of a job."""

    VERIFIED = "verified"
    ABSENT = "absent"
    PARTIAL = "partial"
    INDETERMINATE = "indeterminate"


class Action(StrEnum):
    """What should happen to a letter, according to its triage."""

    AUTO_REPLAY = "auto_replay"
    QUARANTINE = "quarantine"
    REQUIRE_APPROVAL = "require_approval"
    MANUAL_REVIEW = "manual_review"


class Reason(msgspec.Struct, frozen=True):
    """One entry of the catalogue. `action` is the built-in policy's; only a policy file replays automatically."""

    code: str
    cls: Class = msgspec.field(name="class")
    action: Action
    advice: str

    @property
    def loud(self) -> bool:
        """Whether a letter with this reason raises an alert, unless its queue says otherwise."""
        return self.code not in QUIET


QUIET = frozenset({"max_age", "expired", "cancelled", "restored", "denied", "consent_denied"})
"""Reasons that raise no alert: a person decided it, or the work is no longer wanted."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt did not complete."""

    cls: Class = msgspec.field(name="class")
    landed: Landed
    reason_code: str
    cause: str | None = None
    """The last attempt's own reason code, if `reason_code` says something else (`max_attempts`)."""
    error_kind: str | None = None
    message: str = ""
    advice: str = ""

    @property
    def codes(self) -> tuple[str, ...]:
        """The reason codes by which it is found: its own, and that of the last attempt."""
        return (self.reason_code,) if self.cause is None else (self.reason_code, self.cause)

    @property
    def summary(self) -> str:
        """What a person reads about it: kind and message. A KeyError's message is only the key; others have none.

        The message of a reply begins with its status, which is its kind too.
        """
        kind = None if self.message.startswith("HTTP ") else self.error_kind
        return ": ".join(part for part in (kind, self.message) if part)


def _transient(code: str, advice: str) -> Reason:
    return Reason(code, Class.TRANSIENT, Action.MANUAL_REVIEW, advice)


def _poison(code: str, advice: str) -> Reason:
    return Reason(code, Class.PERMANENT, Action.QUARANTINE, advice)


def _stopped(code: str, advice: str) -> Reason:
    return Reason(code, Class.PERMANENT, Action.MANUAL_REVIEW, advice)


def _unknown(code: str, advice: str) -> Reason:
    return Reason(code, Class.UNKNOWN, Action.MANUAL_REVIEW, advice)


CATALOGUE: dict[str, Reason] = {
    reason.code: reason
    for reason in (
        _transient("timeout", "It did not answer in time; see whether the effect landed before replaying."),
        _transient("dependency_unavailable", "Bring the dependency back, then replay."),
        _transient("rate_limited", "Wait, or send less at a time, then replay."),
        _transient("no_workers", "Start a worker for this queue, then replay."),
        _transient("worker_lost", "The worker died while running this; look for a crash in its log before replaying."),
        _unknown("process_died", "The process that ran it died; look for a crash or too little memory, then replay."),
        _transient("drained", "A worker stopped while running this; see whether the effect landed before replaying."),
        _transient("max_attempts", "Every attempt failed; read the history, fix the cause, then replay."),
        _stopped("max_age", "It waited longer than its queue allows; replay it if it is still wanted."),
        _stopped("expired", "It was not run before its expiry; replay it only if it is still wanted."),
        _poison("schema_invalid", "The payload does not fit its handler; fix that and replay, or enqueue a new job."),
        _poison("parse_error", "The payload or reply could not be read; fix its reader, then replay."),
        _poison("tool_contract_mismatch", "Caller and tool disagree about the arguments; fix one of them."),
        _stopped("handler_missing", "No worker has this handler; deploy it or correct the name, then replay."),
        _stopped(
            "argument_too_long",
            "An argument is longer than the operating system allows; let the command read the payload on "
            'standard input (stdin = "payload"), then replay, or enqueue a new job with less.',
        ),
        _stopped("user_action_required", "A person must act first; do that, then replay."),
        _stopped("request_rejected", "The receiver refused the request for good; correct it before replaying."),
        _stopped("redirected", "The receiver redirected and redirects are not followed; enqueue with the new address."),
        _stopped("handler_refused", "The handler gave up on purpose; read its message before replaying."),
        _stopped(
            "undeclared_effect", "The handler does not declare this effect; add it as the message says, then replay."
        ),
        _stopped("forgotten_await", "The handler returned work without waiting for it; fix the handler, then replay."),
        _stopped("denied", "The policy or the receiver refused it; change the permission, then ask again."),
        _stopped("approval_required", "A person must approve it first."),
        _stopped("consent_required", "Its session must consent first; once it has, this continues automatically."),
        _stopped("consent_denied", "Its session was denied this; replay it only after a person has consented."),
        _stopped("policy_snapshot_mismatch", "The policy changed meanwhile; decide again under the present one."),
        _stopped("idempotency_conflict", "Another job holds this key with another payload; decide which one is right."),
        _unknown("partial_external_write", "Some effects landed and some did not; check each before replaying."),
        _unknown(
            "unknown_commit_state",
            "If its effects have checks, replay it: standfast checks first, and runs only what is missing. If not, "
            "check the receiver yourself, and replay only if the effect is missing.",
        ),
        _transient("look_failed", "The check of its effect could not run; it is tried again automatically."),
        _stopped(
            "value_not_kept",
            "The effect or step is done, but its return value cannot be stored. Return a reference instead, such as an "
            "id. A replay runs a step again; an effect stays done, and its verify may give the receipt (Found).",
        ),
        _stopped(
            "arguments_changed",
            "An effect was called with other arguments than before, and may be done already. Check the receiver, let "
            "the handler pass the same arguments on every attempt, then replay.",
        ),
        _stopped("too_many_steps", "One job keeps only so many steps; enqueue the rest as separate jobs."),
        _unknown("unverified", "The handler could not confirm its own effect; look whether it landed."),
        _unknown("unclassified_error", "This error is unclassified; read it, then raise Transient or Permanent."),
        _stopped("cancelled", "It was cancelled."),
        _stopped("restored", "It came back from a backup and may have run since; check before replaying."),
    )
}
"""Every reason code that standfast itself writes. A handler's own codes are allowed too; their class decides."""

ALIASES = {"max_scheduling_retries": "max_attempts"}
"""Reason codes of other systems, and their names here."""

OWN_CODES = {
    Class.TRANSIENT: "The handler says that repeating can help; fix what its message names, then replay.",
    Class.PERMANENT: CATALOGUE["handler_refused"].advice,
    Class.UNKNOWN: CATALOGUE["unclassified_error"].advice,
}


def known_code(code: str) -> str:
    """Return the name that a reason code has here."""
    return ALIASES.get(code, code)


def reason(code: str, cls: Class = Class.UNKNOWN) -> Reason:
    """Look up a code; a handler's own code gets the advice of its class."""
    return CATALOGUE.get(code) or Reason(code, cls, Action.MANUAL_REVIEW, OWN_CODES[cls])
