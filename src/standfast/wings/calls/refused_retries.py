"""Replies to a retry that was refused: by the policy, by what a person said of the letter, or by a probe."""

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
"""What is said of a letter that was not replayed, by the outcome."""
CLOSED = "It was not {done}: {why}. Do not ask again; tell a person."
"""What is said to an agent that asks for a letter which a person has stopped on purpose."""
BY_POLICY = frozenset({"denied", "approval_required"})
"""The outcomes that are the policy's; a consent is the session's."""


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
    """Word that an agent may not have a letter replayed which a person has stopped on purpose; None for other answers.

    That is no rule of the policy, so it is not worded as one.
    """
    closed = answer["outcome"] == "denied" and answer.get("rule") == AGENT
    return CLOSED.format(done=done, why=answer["why"]) if closed else None


def still_down(job: JobView, why: str) -> dict[str, Any]:
    """Word a retry that did not happen, because what it waits for does not say yes; `probe` has its last words."""
    return {**reply(job, STILL_DOWN.format(why=why)), "probe": why, "refused": True}
