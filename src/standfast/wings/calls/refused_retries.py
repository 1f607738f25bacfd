"""Replies to a retry that was refused: by the policy, by a person's decision about the letter, or by a probe."""

from __future__ import annotations

from typing import Any

from standfast.views import JobView
from standfast.wings.calls.replies import CONSENT_REQUIRED, reply
from standfast.wings.policy.permit import AGENT

STILL_DOWN = (
    "It was not retried: the probe still says no ({why}), and the job was left as it is. Bring the dependency back and "
    "ask again, or retry without the probe."
)
NOT_REPLAYED = {
    "denied": "It was not retried: the policy denies it ({rule}{why}). Do not ask again; tell a person.",
    "approval_required": "It was not retried: a person must approve it first ({rule}{why}). Do not ask again.",
    CONSENT_REQUIRED: "It was not retried{rule}{why}. Have a person answer; do not ask again.",
}
"""What a reply says of a letter that was not replayed, by the outcome."""
CLOSED = "It was not {done}: {why}. Do not ask again; tell a person."
"""What an agent is told when it asks for a letter that a person has stopped on purpose."""
BY_POLICY = frozenset({"denied", "approval_required"})
"""The outcomes that the policy decides; a consent is the session's."""


def not_replayed(job: JobView, answer: dict[str, Any]) -> dict[str, Any]:
    """Word a retry that the policy did not allow."""
    outcome, why = answer["outcome"], answer.get("why")
    hint = closed_to_agents(answer, "retried") or NOT_REPLAYED[outcome].format(
        rule=answer.get("rule", ""), why=f": {why}" if why else ""
    )
    status = "failed" if outcome == "denied" else "held"
    approval = {"approval": answer["approval"]} if "approval" in answer else {}
    return {**reply(job, hint), "status": status, "reason_code": outcome, **approval, "refused": True}


def closed_to_agents(answer: dict[str, Any], done: str) -> str | None:
    """Word the refusal to replay a letter that a person has stopped on purpose; None for other answers.

    This is not a rule of the policy, so it is not worded as one.
    """
    closed = answer["outcome"] == "denied" and answer.get("rule") == AGENT
    return CLOSED.format(done=done, why=answer["why"]) if closed else None


def still_down(job: JobView, why: str) -> dict[str, Any]:
    """Word a retry that did not happen because a probe did not say yes; `probe` has what it said last."""
    return {**reply(job, STILL_DOWN.format(why=why)), "probe": why, "refused": True}
