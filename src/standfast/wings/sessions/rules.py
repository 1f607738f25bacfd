"""The text of a session's messages: one sentence for what happened, and one for the next right action."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from standfast.failure import Failure, Landed
from standfast.failure.letter_advice import PERSON_REFUSED
from standfast.job import Claim
from standfast.lifecycle import Transition
from standfast.outcome import Outcome
from standfast.rules import QueueRules
from standfast.wings.sessions.words import DEFERRED, QUIET, RESTORED, Origin

CONSENT = (
    "It was not begun, and waits for this session's consent. Ask a person for it: once it is granted for {target}, it "
    "goes on by itself; do not call again."
)
HELD = "It waits for a person's answer. Do not call again; look with explain."
CANCELLED = "It will not run. Call it again if it is wanted after all."
DENIED = "It stays as it is. Do not ask again without a new reason; tell a person."
REFUSED = "The policy did not let it go on by itself. Do not ask again; tell a person."
TAKEN_BACK = (
    "The store was restored from a backup, and it may have been done since: it does not go on by itself. Do not ask "
    "again; tell a person."
)
MAYBE_DONE = "It may have been done all the same: find out whether it was done before you ask for a retry. {advice}"
FAILED = "It was not done, and nothing more happens by itself. {advice} Then call retry with its id."
SET_APART = "It was not done. {advice} Do not call retry; tell {whom}."
SET_APART_MAYBE_DONE = "It may have been done all the same. {advice} Do not call retry; tell {whom}."
RESULT_HERE = "Nothing is left to do; its result is here."
RESULT_THERE = "Nothing is left to do; fetch its result by its id."
NO_RESULT = "Nothing is left to do."


class MessageText(NamedTuple):
    """A message in words."""

    message: str
    hint: str


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended, as its session is told."""

    kind: str
    state: str
    target: str
    """Its queue/handler."""
    step: str | None = None
    """The step and the workflow it belongs to, in words."""
    attempts: int = 0
    failure: Failure | None = None
    warning: str | None = None
    has_result: bool = False
    carries_result: bool = False
    by: str | None = None
    reason: str | None = None
    answer: str | None = None
    quarantined: bool = False
    """Whether it was quarantined: by the policy when it died, or by a person later."""
    owner: str | None = None
    """The owner that it was quarantined for."""
    maybe: bool = False
    """Whether an earlier run may have done it too; that run need not have counted as an attempt."""

    @property
    def name(self) -> str:
        """The name that people know it by."""
        return self.target if self.step is None else f"{self.step} ({self.target})"

    @property
    def waits_for_consent(self) -> bool:
        """Whether nothing was tried, because its session has not consented yet."""
        return self.state == "held" and self.failure is not None and self.failure.reason_code == "consent_required"


def word_message(end: End) -> MessageText:
    """Return the text of a message."""
    return _done(end) if end.kind in QUIET else MessageText(_what(end), _next(end))


def _done(end: End) -> MessageText:
    first = "after a run that was cut off and did not count" if end.maybe else "at the first attempt"
    tries = first if end.attempts <= 1 else f"after {end.attempts} attempts"
    how = f"{end.by} settled it" if end.by else tries
    warned = f" ({end.warning})" if end.warning else ""
    hint = (RESULT_HERE if end.carries_result else RESULT_THERE) if end.has_result else NO_RESULT
    return MessageText(f"{end.name} is done, {how}{warned}.", hint)


def _what(end: End) -> str:
    failure = "" if end.failure is None else end.failure.summary or end.failure.reason_code
    match end.state, end.answer:
        case "cancelled", _:
            return f"{end.name} was cancelled{_by_whom(end)}."
        case "dead", "denied" | "expired" | "void" as answer if end.by or answer != "denied":
            return f"{end.name} stays dead: its approval is {answer}{_by_whom(end)}. It had failed: {failure}."
        case "dead", _ if end.quarantined and end.by:
            return f"{end.name} was quarantined{_by_whom(end)}. It had failed: {failure}."
        case "held", _ if end.waits_for_consent:
            return f"{end.name} waits for this session's consent: {failure}."
        case "held", _:
            return f"{end.name} is held: {failure}."
        case _:
            tries = "without being tried" if not end.attempts else f"after {end.attempts} attempts"
            return f"{end.name} failed for good {tries if end.attempts != 1 else 'at its one attempt'}: {failure}."


def _by_whom(end: End) -> str:
    who = f" by {end.by}" if end.by else ""
    return f"{who}: {end.reason}" if end.reason else who


def _next(end: End) -> str:
    advice = "" if end.failure is None else end.failure.advice
    match end.state:
        case "cancelled":
            return CANCELLED
        case "dead" if end.failure is not None and end.failure.reason_code == "consent_denied" and not end.quarantined:
            return PERSON_REFUSED
        case "held" if end.waits_for_consent:
            return CONSENT.format(target=end.target)
        case "held":
            return HELD
        case _ if end.answer == "denied" and end.by is not None:
            return DENIED
        case _ if end.answer == RESTORED:
            return TAKEN_BACK
        case _ if end.answer is not None and end.by is None:
            return REFUSED
        case _ if end.quarantined:
            maybe = end.failure is not None and end.failure.landed == Landed.MAYBE
            return (SET_APART_MAYBE_DONE if maybe else SET_APART).format(advice=advice, whom=end.owner or "a person")
        case _ if end.failure is not None and end.failure.landed == Landed.MAYBE:
            return MAYBE_DONE.format(advice=advice).rstrip()
        case _:
            return FAILED.format(advice=advice)


def with_origin(claim: Claim, _outcome: Outcome | None, _rules: QueueRules, decided: Transition) -> Transition:
    """Add to the end of a session's job which session that is, and what happened before."""
    session = claim.details.session
    if session is None:
        return decided
    origin = Origin(
        session,
        claim.handler,
        claim.details.queue_reason == DEFERRED,
        tried=True,
        repeated=claim.entered_before or claim.replays > 0,
        maybe=claim.landed == Landed.MAYBE,
    )
    return decided.carrying(origin)
