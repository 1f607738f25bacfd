"""What a token may see: whole jobs or jobs without their secrets, and totals only over the queues that it reaches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from standfast.lifecycle import State
from standfast.redact import HIDDEN, redacted, redacted_text
from standfast.rules import QueueRules
from standfast.server.auth import reaches
from standfast.views import JobView
from standfast.wings.access.words import Grant, Right
from standfast.wings.health.rules import status
from standfast.wings.health.verbs import TOTALS
from standfast.wings.limits.words import of_dependency, queue_of
from standfast.wings.records.view import EARLIER_STEP

Found = dict[str, Any]
Shown = list[Found]
PAYLOADS = frozenset({"payload", "result", "receipt", "params"})
"""What viewers do not see if `[server] viewer_payloads` is off."""
OF_OTHERS = frozenset({"payload", "coalesced", "idempotency_key"})
"""Fields with other people's data, in a job that the work of several people was folded into."""


def reads_secrets(grant: Grant) -> bool:
    """Return whether a token sees values unredacted: it may read payloads, or sees only its own jobs anyway."""
    return grant.may(Right.READ_PAYLOADS) or own_only(grant)


def job_for(job: JobView, grant: Grant) -> Found:
    """Return a job for JSON; without the right to read payloads, payload and failure are redacted."""
    found = msgspec.to_builtins(without_steps(job, grant))
    return without_secrets(found, grant, job) if is_others_too(job, grant) else value_for(found, grant)


def waits_unseen(job: JobView, grant: Grant | None) -> bool:
    """Return whether a job waits for steps that may be in queues which a token does not reach: they are not named."""
    return job.state == State.WAITING and grant is not None and grant.queues is not None


def without_steps(job: JobView, grant: Grant | None) -> JobView:
    """Return a job without the names of steps that a token may not reach."""
    return msgspec.structs.replace(job, reason=EARLIER_STEP) if waits_unseen(job, grant) else job


def explanation_for(text: str, grant: Grant | None, job: JobView) -> str:
    """Return why a job is where it is, without such names."""
    return f"It {EARLIER_STEP}." if waits_unseen(job, grant) else text


def is_others_too(job: JobView, grant: Grant | None) -> bool:
    """Return whether a job contains other people's data, for a token that may read only its own."""
    return grant is not None and own_only(grant) and len(job.requesters) > 1


def value_for(found: Found, grant: Grant) -> Found:
    """Return one thing: a group of letters, a schedule, a redrive, an approval, a decision, an alert, a closed gate.

    Everything that people or handlers may have written into goes through here, for every interface but MCP, which
    removes the secrets for everybody.
    """
    return found if reads_secrets(grant) else without_secrets(found, grant)


def without_secrets(found: Found, grant: Grant, job: JobView | None = None) -> Found:
    """Return a thing for a token that may not read payloads: secrets hidden, hashes keyed, perhaps no payloads."""
    hidden: Found = redacted(found, keyed_hashes=True, without=left_out(grant, job))
    return hidden


def left_out(grant: Grant | None, job: JobView | None = None) -> frozenset[str]:
    """Return the fields that are not shown at all, for one job or for anything else."""
    payloads: frozenset[str] = frozenset() if grant is None or grant.payloads else PAYLOADS
    return payloads | OF_OTHERS if job is not None and is_others_too(job, grant) else payloads


def values_for(found: Iterable[Found], grant: Grant) -> Shown:
    """Return several things, each redacted by itself: one large value would be cut where a long list is not."""
    return [value_for(each, grant) for each in found]


def text_for(text: str, grant: Grant, job: JobView | None = None) -> str:
    """Return a text about a job, or about anything else."""
    others = job is not None and is_others_too(job, grant)
    return text if reads_secrets(grant) and not others else redacted_text(text)


def result_for(result: Any, key: str | None, grant: Grant, job: JobView) -> Any:
    """Return a job's result, or one key of it: the key's name may mark its value as secret."""
    if not grant.payloads and not reads_secrets(grant):
        return HIDDEN
    named = key or "result"
    show = without_secrets if is_others_too(job, grant) else value_for
    return show({named: result}, grant).get(named, HIDDEN)


def workflow_for(found: Found, grant: Grant) -> Found:
    """Return a workflow with its steps; the names that connect its steps are kept."""
    if reads_secrets(grant):
        return found
    steps = {name: {**without_secrets(step, grant), "after": step["after"]} for name, step in found["steps"].items()}
    return {**without_secrets({**found, "steps": None}, grant), "steps": steps}


def own_only(grant: Grant) -> bool:
    """Return whether a token may read only what its person enqueued."""
    return not grant.may(Right.READ)


def may_read(job: JobView, grant: Grant) -> bool:
    """Return whether a job may be read: by those who read everything, and by the people who enqueued it."""
    return grant.may(Right.READ) or grant.person in job.requesters


def issues_for(issues: list[str], grant: Grant, queues: Iterable[str]) -> list[str]:
    """Leave out issues of queues that a token does not reach, and of the whole. `queues` are all that exist."""
    names = {*queues, *(grant.queues or ())}
    return [text_for(issue, grant) for issue in issues if reaches(grant, queue_of_issue(issue, names))]


def queue_of_issue(issue: str, queues: Iterable[str]) -> str | None:
    """Find the queue that an issue begins with. A name may contain a colon and begin like another: the longest wins."""
    return max((name for name in queues if issue.startswith(f"{name}: ")), key=len, default=None)


def alerts_for(alerts: Shown, grant: Grant) -> Shown:
    """Leave out alerts about queues that a token does not reach, and about the whole."""
    return values_for((each for each in alerts if reaches(grant, each["queue"])), grant)


def stats_for(found: Found, grant: Grant) -> Found:
    """Leave out queues that a token does not reach, also from sums; figures known only for the whole are emptied."""
    if grant.queues is None:
        return {**found, "gates": values_for(found["gates"], grant)}
    queues = {name: each for name, each in found["queues"].items() if grant.reaches(name)}
    counters: Counter[str] = Counter()
    for each in queues.values():
        counters.update(each["counters"])
    workers = workers_for(found["workers"], grant)
    depths = {name: each["due"] for name, each in queues.items()}
    about = {"queue_depths": depths, "worker_running": bool(workers), "workers": workers, "counters": dict(counters)}
    unknown: Found = {"oldest_pending_seconds": None, "next_retry_at": None, "gates": [], "spool": None, "outboxes": []}
    return {**_totals(queues.values()), **about, "queues": queues, **unknown}


def _totals(queues: Collection[Found]) -> Found:
    return {total: sum(each[name] for each in queues) for name, total in TOTALS.items()}


def gates_of(gates: Shown, queue: str, rules: QueueRules, grant: Grant) -> Shown:
    """Return the gates of one queue, and the breaker of the dependency that its rules name."""
    named = None if rules.breaker is None else rules.breaker.dependency
    breaker = None if named is None else of_dependency(named)
    ours = (each for each in gates if each["key"] == breaker or _queue_of(each) == queue)
    return values_for(ours, grant)


def _queue_of(gate: Found) -> str | None:
    return None if gate["kind"] == "breaker" else queue_of(gate["key"])


def health_for(found: Found, grant: Grant, stats: Found | None) -> Found:
    """Judge only what a token reaches. `stats` are of the whole; given for a token that does not reach all of it."""
    known = () if stats is None else stats["queues"]
    issues, alerts = issues_for(found["issues"], grant, known), alerts_for(found["alerts"], grant)
    totals = {} if stats is None else {name: each for name, each in stats_for(stats, grant).items() if name in found}
    return {**found, **totals, "status": status(issues), "issues": issues, "alerts": alerts}


def workers_for(workers: Shown, grant: Grant) -> Shown:
    """Leave out workers without a queue that the token reaches, and from the others the queues it does not reach."""
    if grant.queues is None:
        return workers
    shown = [_worker_for(each, grant) for each in workers]
    return [each for each in shown if each["queues"]]


def _worker_for(worker: Found, grant: Grant) -> Found:
    shown: Found = {**worker, "queues": [name for name in worker["queues"] if grant.reaches(name)]}
    if "jobs" in worker:
        shown["running"] = {queue: number for queue, number in worker["running"].items() if grant.reaches(queue)}
        shown["jobs"] = [job for job in worker["jobs"] if grant.reaches(job["queue"])]
    return shown
