"""The Reply: the dict an agent sees. It says what is so and what to do next; queued is never worded as success."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.failure.letter_advice import PERSON_REFUSED, QUARANTINED, in_quarantine
from standfast.lifecycle import State
from standfast.views import JobView
from standfast.wings.effects.outcomes import LOOK_FAILED, RECOVERED
from standfast.wings.records.advice import may_have_landed
from standfast.wings.records.effects_view import found_effects
from standfast.wings.records.view import LAPSED

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
    "running": "It is not done yet: it is being run right now. Do not call again; wait for it, or look with status.",
    "held": "It waits for a person's answer. Do not call again; look with explain.",
    "failed": "It failed permanently and had no effect. Read the error, and what explain says, before you retry it.",
    "timeout": (
        "Its time was up, or something that it called did not answer in time. It may have been done all the same, and "
        "is not repeated by itself. Find out whether it was done before you ask for a retry."
    ),
    "cancelled": "It was cancelled and will not run. Call it again if it is wanted after all.",
}
"""What a reply says by status, if nothing more is known."""
CANCELLED_WITH_KEY = (
    "It was cancelled and will not run. If it is wanted after all, call it again with another idempotency_key."
)
BEFORE = "An earlier attempt may have done it."
PUT_BACK = "It was put back to work and is running now. Do not call again; wait for it, or look with status."
NOTHING_RETRIED = "Nothing was retried. {hint}"
NOTHING_CANCELLED = "Nothing was cancelled: it had ended before. {hint}"
RETRYING = (
    "It is not done: an attempt failed, and it is tried again by itself, next at {due}. Do not call again; wait for "
    "it, or look with status."
)
DEFERRED = (
    "It is not done yet: it was taken in, and a worker runs it once. Do not submit it again; wait for it, or look with "
    "status."
)
POSTPONED = (
    "It is not done: its receiver refused it for now and said when to come back; it is tried again by itself, next at "
    "{due}. Do not call again; wait for it, or look with status."
)
SCHEDULED = "It is not done yet: it is due at {due}. Do not call again; look with status, or wait for it."
WAITING = "It is not done yet: it waits for earlier steps of its workflow. Look with status, or wait for it."
GOES_ON = (
    "It is not done yet: it is still being run, and goes on without you. Do not call again; wait for it, or look with "
    "status."
)
NOBODY_AT_IT = (
    "It is not known to be done, and no worker runs it: its worker has been silent for longer than its lease. A live "
    "worker takes it up by itself, and repeats it, checks it or leaves it to a person, as its handler says. Do not "
    "call again; see with health that a worker is there, then wait for it."
)
SPOOLED = (
    "It is not done yet: the store is away, and it is kept on this host and brought there by itself. Do not call "
    "again; look with status."
)
SUPERSEDED = "It will not run: job {by}, a newer one of the same thread, took its place. Look at that one."
UNTOLD = (
    "It may have been done or not: the check could not tell. Do not call again; a person finds out, and explain says "
    "at what to look."
)
APPROVAL = "It waits for a person's approval, and goes on once that is given. Do not call again; look with status."
CONSENT = (
    "It was not begun: it waits until a person who may approve consents, in the dashboard or at the command line, and "
    "goes on by itself then. Do not call again; look with status."
)
GRANT = "{hint} To consent, a person runs: standfast consent grant{store} {id}"
CONSENT_REQUIRED = "consent_required"
UNKEPT = "It is done, but its result could not be kept. Do not call again; look at what it did."
FOUND = (
    "It is done: its end was lost, but its effect was found ({found}). Nothing was run again, so there is no result."
)
FOUND_WITH_RESULT = (
    "It is done: its end was lost, but its effect was found ({found}). Nothing was run again; the result is what was "
    "found."
)
RESUMING = (
    "Part of it is done ({found}) and is not done again; the rest is not, and goes on by itself, next at {due}. Do not "
    "call again; wait for it, or look with status."
)
LOOKING = (
    "It may have been done or not: that could not be looked up just now, and is tried again by itself, next at {due}. "
    "Do not call again; wait for it, or look with status."
)
PARTLY_DONE = (
    "It failed permanently after part of it was done ({found}). Read the error, and what explain says, before you "
    "retry it."
)
CUT = (
    "It is done. The result is too long for a reply and is cut here: fetch the whole with result(operation_id), or one "
    "key of it with result(operation_id, key)."
)
MAYBE_DONE = (
    "It failed permanently, and may have been done all the same. Find out whether it was done before you ask for a "
    "retry."
)
SET_APART = "It failed permanently{more}. {quarantine} Do not ask for a retry; tell {whom}."
REPLAY_DENIED = "denied"
"""The replay status of a letter whose replay was denied, by the policy or by the person asked to approve it."""
PERSON_DENIED = "A person was asked to approve a retry, and refused."
POLICY_DENIED = "The policy denied a retry."
REFUSED_REPLAY = "It failed permanently{more}. {who} Do not ask again without a new reason; tell a person."
REPLAYED_LATER = (
    "It failed, and is not given up: the policy has it run again by itself, at {at}. Do not ask for a retry; wait for "
    "it, or look with status."
)
PARKED = "It was not started: {why} It goes on by itself then; look again with status, or wait for it."
ANOTHERS = (
    "Another session's call has this key, so it was not called again: that one {stands}. What came of it is told that "
    "session alone. If it should be done for you too, call with a key of your own."
)
STANDS = {
    "ok": "is done",
    "queued": "waits and is not done yet",
    "running": "was begun and is not done yet",
    "held": "is held for a person's answer",
    "failed": "failed for good",
    "timeout": "was cut off and may have been done",
    "cancelled": "was cancelled and will not run",
}
"""How another session's call is described, by its status."""
DENIED = "consent_denied"
"""The reason code of a job that died because a person refused it."""
NOT_YOURS = "not_yours"
LONGEST_RESULT = 100_000
"""Most characters of a result in a reply; `result` returns the whole."""
MOST_KEYS = 100
"""Most keys of a cut result that a reply names."""
MOST_FOUND = 5
"""Most effects and steps that a hint names."""


def reply(job: JobView, hint: str | None = None) -> dict[str, Any]:
    """Word a job's present state as a Reply."""
    status = _status(job)
    result = _result(job) if status == "ok" else {}
    answer: dict[str, Any] = {"operation_id": job.id, "status": status, "hint": hint or _hint(job, status), **result}
    if status == "queued":
        tried = job.attempts > 0 or _was_refused(job)
        answer |= {"queue_reason": job.queue_reason, "queued_for_retry": tried, "retry_at": _due(job)}
    if job.failure is not None:
        kind = {"error_kind": job.failure.error_kind} if job.failure.error_kind else {}
        answer |= {"error": job.failure.message, "reason_code": job.failure.reason_code, **kind}
    answer |= {**_approval(job), **_progress(job)}
    if job.warning:
        answer["warning"] = job.warning
    if job.warning == RECOVERED:
        answer |= {"post_write_recovery": True, "effects_verified": found_effects(job.effects)}
    return answer


def retried(job: JobView) -> dict[str, Any]:
    """Word a retry that was done; the caller knows what failed before, so it is left out."""
    if job.state != State.RUNNING or is_stalled(job):
        return reply(job)
    former = {"error", "error_kind", "reason_code"}
    return {name: value for name, value in reply(job, PUT_BACK).items() if name not in former}


def not_retried(job: JobView) -> dict[str, Any]:
    """Word a retry that put nothing back to work: it runs, has ended, or waits for other steps."""
    answer = reply(job)
    return {**answer, "hint": NOTHING_RETRIED.format(hint=answer["hint"]), "refused": True}


def not_cancelled(job: JobView) -> dict[str, Any]:
    """Word a cancellation that came too late."""
    answer = reply(job)
    return {**answer, "hint": NOTHING_CANCELLED.format(hint=answer["hint"]), "refused": True}


def parked(job: JobView, why: str, until: datetime | None = None) -> dict[str, Any]:
    """Word a retry of a job that waits for something other than its time: the retry does not change that."""
    answer = reply(job, PARKED.format(why=why))
    return answer if until is None else {**answer, "retry_at": _isoformat(until)}


def spooled(job: JobView) -> dict[str, Any]:
    """Word a call that was accepted while the store is away."""
    return reply(job, SPOOLED)


def with_grant(answer: dict[str, Any], store: str) -> dict[str, Any]:
    """Add the command that grants consent, if the caller's door knows how to name the store in it."""
    waits = CONSENT_REQUIRED in {answer.get("reason_code"), answer.get("outcome")} or answer["hint"] == CONSENT
    if not waits or "operation_id" not in answer:
        return answer
    return {**answer, "hint": GRANT.format(hint=answer["hint"], store=store, id=answer["operation_id"])}


def part_of(job: JobView, key: str) -> Any:
    """Return one key of a job's result. Refuse a key that the result does not have, and name those it has."""
    if isinstance(job.result, dict) and key in job.result:
        return job.result[key]
    if job.state != State.COMPLETED:
        raise ConfigurationError(
            f"job {job.id} is {job.view}, so it has no result yet; wait for it, or look with status"
        )
    if not isinstance(job.result, dict):
        kind = "no result" if job.result is None else f"a result of type {type(job.result).__name__}, without keys"
        raise ConfigurationError(f"job {job.id} has {kind}; ask for the whole with result(id)")
    known = ", ".join(repr(name) for name in list(job.result)[:MOST_KEYS]) or "none"
    raise ConfigurationError(f"the result of job {job.id} has no key {key!r}; its keys are {known}")


def still_running(job: JobView) -> dict[str, Any]:
    """Word a call that may still run: its caller waited long enough, or an earlier call with its key is running."""
    return reply(job, GOES_ON if job.state == State.RUNNING and not is_stalled(job) else None)


def is_stalled(job: JobView) -> bool:
    """Return whether a job counts as running although its worker is gone and no other worker has taken it up yet."""
    return job.state == State.RUNNING and job.reason == LAPSED


def of_other_session(job: JobView) -> dict[str, Any]:
    """Word a call whose key belongs to another session: the state of that call, and nothing of its outcome."""
    status = _status(job)
    return {
        "operation_id": job.id,
        "status": status,
        "hint": ANOTHERS.format(stands=STANDS[status]),
        "reason_code": NOT_YOURS,
    }


def _status(job: JobView) -> str:
    """Return the status word. It is `timeout` for a job cut off at its timeout that may not be repeated."""
    failure = job.failure
    last = next((line for line in reversed(job.history) if line.by is None), None)  # a person's entry is not an attempt
    unknown = failure is not None and failure.reason_code == "unknown_commit_state"
    timed_out = last is not None and last.reason_code == "timeout"
    return "timeout" if job.state == State.DEAD and unknown and timed_out else STATUS[job.state]


def _hint(job: JobView, status: str) -> str:
    """Say how things stand and what to do next, from what is known of the job apart from its status."""
    hint: str | None = None
    match job.state:
        case State.COMPLETED:
            hint = _hint_of_done(job)
        case State.QUEUED:
            hint = _hint_of_queued(job)
        case State.WAITING:
            hint = WAITING
        case State.RUNNING if is_stalled(job):
            hint = NOBODY_AT_IT
        case State.HELD:
            hint = _hint_of_held(job)
        case State.DEAD if job.failure is not None and job.failure.reason_code == DENIED:
            hint = f"{BEFORE} {PERSON_REFUSED}" if _maybe_done(job) else PERSON_REFUSED
        case State.DEAD if _is_replayed_later(job):
            hint = REPLAYED_LATER.format(at=_isoformat(job.triage.replay_at if job.triage else None))
        case State.DEAD if job.triage is not None and job.triage.replay_status == QUARANTINED:
            hint = _hint_of_set_apart(job, job.triage.owner)
        case State.DEAD if job.triage is not None and job.triage.replay_status == REPLAY_DENIED:
            hint = _hint_of_denied_replay(job)
        case State.DEAD if status == "failed" and _maybe_done(job):
            hint = MAYBE_DONE
        case State.DEAD if status == "failed" and found_effects(job.effects):
            hint = PARTLY_DONE.format(found=", ".join(found_effects(job.effects)[:MOST_FOUND]))
        case State.CANCELLED if job.superseded_by:
            hint = SUPERSEDED.format(by=job.superseded_by)
        case State.CANCELLED if job.idempotency_key:
            hint = CANCELLED_WITH_KEY
    return hint or HINTS[status]


def _hint_of_set_apart(job: JobView, owner: str | None) -> str:
    found = ", ".join(found_effects(job.effects)[:MOST_FOUND])
    partly = f" after part of it was done ({found})" if found else ""
    more = ", and may have been done all the same" if _maybe_done(job) else partly
    return SET_APART.format(more=more, quarantine=in_quarantine(owner), whom=owner or "a person")


def _hint_of_denied_replay(job: JobView) -> str:
    last = job.history[-1] if job.history else None
    by_person = last is not None and last.reason_code == REPLAY_DENIED and last.by is not None
    more = ", and may have been done all the same" if _maybe_done(job) else ""
    return REFUSED_REPLAY.format(more=more, who=PERSON_DENIED if by_person else POLICY_DENIED)


def _hint_of_done(job: JobView) -> str | None:
    if job.warning == RECOVERED:
        hint = FOUND if job.result is None else FOUND_WITH_RESULT
        return hint.format(found=", ".join(found_effects(job.effects)) or "see explain")
    if job.warning == "result_not_stored":
        return UNKEPT
    return CUT if _is_long(job) else None


def _was_refused(job: JobView) -> bool:
    """Return whether the receiver refused the job for now, so that the attempt does not count."""
    return bool(job.history) and job.history[-1].refused


def _hint_of_queued(job: JobView) -> str | None:
    if _was_refused(job):
        return POSTPONED.format(due=_due(job))
    if job.failure is not None and job.failure.reason_code == LOOK_FAILED:
        return LOOKING.format(due=_due(job))
    if job.attempts and found_effects(job.effects):
        return RESUMING.format(found=", ".join(found_effects(job.effects)[:MOST_FOUND]), due=_due(job))
    if job.attempts:
        return RETRYING.format(due=_due(job))
    if job.queue_reason == "deferred_submit":
        return DEFERRED
    return SCHEDULED.format(due=_due(job)) if job.view == "scheduled" else None


def _hint_of_held(job: JobView) -> str | None:
    if _awaits_approval(job):
        return APPROVAL
    reasons = {"unknown_commit_state": UNTOLD, CONSENT_REQUIRED: CONSENT}
    return None if job.failure is None else reasons.get(job.failure.reason_code)


def _awaits_approval(job: JobView) -> bool:
    return job.state == State.HELD and job.triage is not None and job.triage.replay_status == "approval_pending"


def _approval(job: JobView) -> dict[str, str]:
    """Say what a job waits for now, not what it once failed by; and name the approval, so that a person finds it."""
    if not _awaits_approval(job):
        return {}
    named = {"approval": job.triage.approval} if job.triage is not None and job.triage.approval else {}
    return {"reason_code": "approval_required", **named}


def _progress(job: JobView) -> dict[str, Any]:
    """Return the progress that a running job reports."""
    if job.state != State.RUNNING or job.progress is None:
        return {}
    return {"progress": {"fraction": job.progress["fraction"], "note": job.progress["note"]}}


def _maybe_done(job: JobView) -> bool:
    return may_have_landed(job.failure, job.history)


def _is_replayed_later(job: JobView) -> bool:
    """Return whether a rule of the policy replays the job automatically."""
    return job.triage is not None and job.triage.replay_status == "scheduled"


def _due(job: JobView) -> str:
    return _isoformat(job.due_at)


def _isoformat(moment: object) -> str:
    return str(msgspec.to_builtins(moment))  # as JSON has it


def _text(job: JobView) -> str:
    return msgspec.json.encode(job.result).decode()


def _is_long(job: JobView) -> bool:
    return len(_text(job)) > LONGEST_RESULT


def _result(job: JobView) -> dict[str, Any]:
    """Return the result, or the beginning of its text with the keys it can be fetched by."""
    if not _is_long(job):
        return {"result": job.result}
    keys = {"keys": list(job.result)[:MOST_KEYS]} if isinstance(job.result, dict) else {}
    return {"result": {"_truncated": True, "text": _text(job)[:LONGEST_RESULT], **keys}}
