"""What happened and what is safe, for each reason code: what its page says beyond the catalogue."""

from __future__ import annotations

from typing import NamedTuple


class ReasonText(NamedTuple):
    """The hand-written part of a page."""

    happened: str
    safe: str


NOTHING_DONE = "The handler did not run, so no side effect exists. A replay is safe."
CHECK_EFFECT = (
    "The side effect may exist. If the handler declares its effects with a check, a replay is safe: standfast looks "
    "first. Otherwise look at the receiver before you replay."
)
BY_MESSAGE = (
    "The failure's `landed` field says whether the side effect may exist. `no` means that a replay cannot duplicate "
    "it; `maybe` means that you should look first."
)
NO_EFFECT_CLAIMED = (
    "The receiver or the handler said that nothing was done (`landed: no`), so a replay cannot duplicate this call. It "
    "fails again in the same way until you change the cause."
)

TEXTS = {
    "timeout": ReasonText("The handler, or something it called, did not finish in time.", BY_MESSAGE),
    "dependency_unavailable": ReasonText(
        "Something the handler needs could not be reached, or the connection to it broke.", BY_MESSAGE
    ),
    "rate_limited": ReasonText(
        "The receiver refused the call because there were too many.",
        "The receiver did nothing. A replay is safe, and is refused again if it comes too early.",
    ),
    "no_workers": ReasonText("No worker served this queue in time.", NOTHING_DONE),
    "worker_lost": ReasonText(
        "The worker process died or stopped answering while it ran this job, and the job was running alone when it "
        "happened again.",
        CHECK_EFFECT + " The job itself may have killed the process, so a replay may kill another worker.",
    ),
    "process_died": ReasonText(
        "The child process of an isolated handler died: a crash, `os._exit`, or the out-of-memory killer.",
        CHECK_EFFECT + " The worker and its other jobs were not affected.",
    ),
    "drained": ReasonText("A worker shut down before the handler had finished.", CHECK_EFFECT),
    "max_attempts": ReasonText(
        "Every attempt failed. The failure's `cause` names the reason code of the last one.", BY_MESSAGE
    ),
    "max_age": ReasonText("The job waited longer than its queue's `max_age`.", BY_MESSAGE),
    "expired": ReasonText("The job had not started when its `expires` time came.", BY_MESSAGE),
    "schema_invalid": ReasonText("The payload does not match the handler's input type.", NOTHING_DONE),
    "parse_error": ReasonText(
        "A payload or a reply could not be read.",
        "If it was the payload, nothing was done. If it was a reply, the receiver has answered, so the side effect may "
        "exist: look before you replay.",
    ),
    "tool_contract_mismatch": ReasonText(
        "The caller and the tool disagree about the tool's arguments.", NO_EFFECT_CLAIMED
    ),
    "handler_missing": ReasonText(
        "No worker has the handler, or the program or module that it needs cannot be started.", NOTHING_DONE
    ),
    "argument_too_long": ReasonText(
        "The command could not be started because one argument is longer than the operating system allows.",
        NOTHING_DONE,
    ),
    "user_action_required": ReasonText(
        "The receiver asks for something only a person can do, such as signing in again.", NO_EFFECT_CLAIMED
    ),
    "request_rejected": ReasonText(
        "The receiver refused the request as wrong, for example with HTTP 400 or 422.", NO_EFFECT_CLAIMED
    ),
    "redirected": ReasonText(
        "The receiver answered with a redirect. standfast does not follow redirects, because the new address may not "
        "be one that the queue may call.",
        CHECK_EFFECT,
    ),
    "handler_refused": ReasonText("The handler raised `Permanent`.", NO_EFFECT_CLAIMED),
    "undeclared_effect": ReasonText(
        "The handler used an effect that its `effects=[…]` does not name.",
        "The undeclared effect was not started. Effects before it are in the ledger and are not repeated.",
    ),
    "forgotten_await": ReasonText(
        "The handler returned a coroutine or a generator instead of a result.",
        "The returned work did not run. What the handler did before it returned may have had its effect.",
    ),
    "denied": ReasonText(
        "A permission was missing: the policy, the queue's list of destinations, or the receiver refused it.",
        NO_EFFECT_CLAIMED,
    ),
    "approval_required": ReasonText(
        "The policy requires a second person to approve this replay.", "Nothing runs until the approval is given."
    ),
    "consent_required": ReasonText(
        "The handler needs the consent of the job's session, and there is none yet.",
        "The handler has not been entered for this attempt. Waiting costs no attempt.",
    ),
    "consent_denied": ReasonText("A person denied the consent that the handler needs.", NOTHING_DONE),
    "policy_snapshot_mismatch": ReasonText(
        "The policy changed between the decision and the moment it was carried out.",
        "Nothing was started under the old policy.",
    ),
    "idempotency_conflict": ReasonText(
        "A job arrived with an idempotency key that another job holds with a different payload.", NOTHING_DONE
    ),
    "partial_external_write": ReasonText(
        "A check found that some of the handler's effects exist and others do not.",
        "A handler that uses the ledger can be replayed: the ledger skips the effects that exist. Without the ledger, "
        "a replay repeats all of them.",
    ),
    "unknown_commit_state": ReasonText(
        "The request may have reached its receiver, and nothing tells whether the side effect happened.", CHECK_EFFECT
    ),
    "look_failed": ReasonText(
        "A check that looks for an effect failed for now, for example because its server did not answer.",
        "The handler does not run again before the check has answered. Checks cost no attempt.",
    ),
    "value_not_kept": ReasonText(
        "An effect or a step succeeded, but its return value cannot be stored: it is not JSON, or larger than 1 MiB.",
        "An effect is recorded as done and is not repeated. A step runs again on a replay.",
    ),
    "arguments_changed": ReasonText(
        "An effect was called with arguments other than those of an earlier attempt, in a handler that may not repeat "
        "anything.",
        CHECK_EFFECT,
    ),
    "too_many_steps": ReasonText(
        "One job recorded more steps than the store keeps for a job (10 000).",
        "Recorded steps are kept. A replay fails at the same place.",
    ),
    "unverified": ReasonText("The handler finished, but said that it could not confirm its own effect.", CHECK_EFFECT),
    "unclassified_error": ReasonText(
        "The handler raised an exception that neither standfast nor your code classifies.", CHECK_EFFECT
    ),
    "cancelled": ReasonText(
        "A person or a program cancelled the job.",
        "A cancelled job never runs again. If it was running, parts of its work may have been done.",
    ),
    "restored": ReasonText(
        "The store was restored from a backup. The job was unfinished in the backup and may have run since.",
        CHECK_EFFECT,
    ),
}
