"""What to do about a failure, given where its job is now. It is all here, so that advice and hints never disagree."""

from __future__ import annotations

from msgspec.structs import replace

from standfast.failure import CATALOGUE, Failure, Landed

TELLS_OF_EFFECT = frozenset(
    {
        "timeout",
        "drained",
        "partial_external_write",
        "unknown_commit_state",
        "look_failed",
        "arguments_changed",
        "unverified",
        "restored",
    }
)
"""The reasons whose own advice says that the effect may exist."""
NOT_LANDED = {
    "timeout": "It did not answer in time, and nothing was done; bring it back, then replay.",
    "drained": "A worker stopped before anything was done; replay it.",
}
"""The advice of two of these reasons if the effect certainly does not exist; the catalogue assumes that it may."""
LOOK_FIRST = "Its effect may exist: check before you replay."
RUNS_AGAIN = "An earlier attempt failed; it is being run again now. Wait for it."
TRIED_AGAIN = "It is tried again automatically; you need not do anything now."
REPLAYED_AGAIN = "A rule of the policy replays it automatically; you need not do anything unless that fails too."
APPROVAL = f"{CATALOGUE['approval_required'].advice} Then it continues automatically."
PERSON_REFUSED = (
    "A person refused it, and it will not run. Do not call it again or ask for a retry, unless a person says so."
)
QUARANTINED = "quarantined"
"""The replay status of a letter in quarantine."""


def in_quarantine(owner: str | None) -> str:
    """Say that a letter is in quarantine, and who ends that."""
    who = f"its owner ({owner}) or another operator" if owner else "an operator"
    return (
        f"It is in quarantine: nothing replays it automatically until {who} replays, amends, resolves or discards it."
    )


def letter_advice(failure: Failure, *, maybe: bool) -> str:
    """Say what to do about a letter; `maybe` says whether any of its attempts may have had its effect."""
    if not maybe:
        return NOT_LANDED.get(failure.reason_code, failure.advice)
    if failure.reason_code in TELLS_OF_EFFECT:
        return failure.advice
    return f"{LOOK_FIRST} {failure.advice}".rstrip()


def as_letter(failure: Failure, *, maybe: bool = False) -> Failure:
    """Return a letter's failure with the advice that fits it."""
    landed = maybe or failure.landed == Landed.MAYBE
    return replace(failure, advice=letter_advice(failure, maybe=landed))
