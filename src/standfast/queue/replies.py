"""The Reply: the dict an agent sees. It says what is so and what to do next; queued is never worded as success."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.decide.settle import RECOVERED
from standfast.failure import Landed, Verdict
from standfast.job import JobView
from standfast.lifecycle import State

STATUS = {
    State.QUEUED: "queued",
    State.WAITING: "queued",
    State.RUNNING: "running",
    State.HELD: "held",
    State.DEAD: "failed",
    State.COMPLETED: "ok",
    State.CANCELLED: "cancelled",
}
HINTS = {
    "ok": "It is done; the result is here.",
    "queued": "It is not done yet: it waits in the queue. Look again with status, or wait for it.",
    "running": "It is being run right now, so it cannot be retried. Wait for it, then look again.",
    "held": "It waits for a person's answer. Do not call again; look with explain.",
    "failed": "It failed for good and was not done. Read the reason and its advice before asking for a retry.",
    "cancelled": "It was cancelled and will not run. Enqueue it anew if it is wanted after all.",
}
MAYBE_DONE = (
    "It failed for good, and may have been done all the same. Find out whether it was before asking for a retry."
)
PARKED = "It was not started: {why} It goes on by itself then; look again with status, or wait for it."
STILL_DOWN = (
    "It was not retried: the probe still says no ({why}), and the job was left as it is. Bring the dependency back and "
    "ask again, or retry without the probe."
)
NOT_REPLAYED = {
    "denied": "It was not retried: the policy denies it ({rule}{why}). Do not ask again; tell a person.",
    "approval_required": "It was not retried: a person must approve it first ({rule}{why}). Do not ask again.",
}
"""What is said of a letter that the policy did not let go, by the outcome of its replay."""
LONGEST_RESULT = 100_000
"""Characters of a result a reply carries; the whole is fetched by `result`."""


def reply(job: JobView, hint: str | None = None) -> dict[str, Any]:
    """Word a job's present state as a Reply."""
    status = STATUS[job.state]
    said: dict[str, Any] = {"operation_id": job.id, "status": status, "hint": hint or _hint(job, status)}
    if status == "queued":
        due = msgspec.to_builtins(job.due_at)  # as JSON has it
        said |= {"queue_reason": job.queue_reason, "queued_for_retry": job.attempts > 0, "retry_at": due}
    if status == "ok":
        said |= _result(job)
    if job.failure is not None:
        kind = {"error_kind": job.failure.error_kind} if job.failure.error_kind else {}
        said |= {"error": job.failure.message, "reason_code": job.failure.reason_code, **kind}
    if job.warning:
        said["warning"] = job.warning
    if job.warning == RECOVERED:
        verified = [effect["name"] for effect in job.effects if effect["verdict"] == Verdict.VERIFIED]
        said |= {"post_write_recovery": True, "effects_verified": verified}
    return said


def parked(job: JobView, why: str) -> dict[str, Any]:
    """Word a retry of a job that waits for something else than its time: that it asked changes nothing there."""
    return reply(job, PARKED.format(why=why))


def still_down(job: JobView, why: str) -> dict[str, Any]:
    """Word a retry that did not happen, because what it waits for does not say yes; `probe` has its last words."""
    return {**reply(job, STILL_DOWN.format(why=why)), "probe": why}


def not_replayed(job: JobView, said: dict[str, Any]) -> dict[str, Any]:
    """Word a retry that the policy did not allow."""
    outcome, why = said["outcome"], said.get("why")
    hint = NOT_REPLAYED[outcome].format(rule=said["rule"], why=f": {why}" if why else "")
    status = "failed" if outcome == "denied" else "held"
    approval = {"approval": said["approval"]} if "approval" in said else {}
    return {**reply(job, hint), "status": status, "reason_code": outcome, **approval}


def _hint(job: JobView, status: str) -> str:
    """Say what is so and what to do next; "not done" only of what certainly was not."""
    maybe = job.failure is not None and job.failure.landed == Landed.MAYBE
    maybe = maybe or any(line.landed == Landed.MAYBE for line in job.history)
    return MAYBE_DONE if status == "failed" and maybe else HINTS[status]


def _result(job: JobView) -> dict[str, Any]:
    text = msgspec.json.encode(job.result).decode()
    if len(text) <= LONGEST_RESULT:
        return {"result": job.result}
    return {"result": {"_truncated": True, "text": text[:LONGEST_RESULT]}}
