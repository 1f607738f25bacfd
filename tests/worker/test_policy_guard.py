"""The policy replays nothing by itself that may have landed, and finds letters by reason and by cause alike."""

from __future__ import annotations

from itertools import cycle

import pytest

from standfast import JobView, Permanent, Standfast, Transient, Uncertain
from standfast.errors import HandlerFailure
from standfast.store.migrations import migrations
from standfast.store.sqlite.sqlite_engine import SqliteEngine
from standfast.testing import drain
from standfast.views import Triage
from tests.core.test_policy_load import AS_PUBLISHED
from tests.store import behind
from tests.waiting import failure_of, job_of
from tests.worker.governing import redriver

EXHAUSTED = """
version: v1
dlq_rules:
  - match: {{reason_code: max_attempts{more}}}
    action: auto_replay
    max_replays: 2
    backoff: none
    owner: mail-team
{following}
"""
APPROVAL = "  - match: {{{key}: unknown_commit_state}}\n    action: require_approval\n    approver_group: governance"
NOTE = "dlq_rules#1 would replay it, but its effect may have landed, and the rule does not say `landed: maybe`"


def triage_of(job: JobView) -> Triage:
    assert job.triage is not None
    return job.triage


def policy(more: str = "", following: str = "") -> str:
    return EXHAUSTED.format(more=more, following=following)


def failing(sf: Standfast, *errors: Exception, attempts: int = 5, queue: str = "mail", **options) -> list[int]:
    """Declare a queue whose attempts end in these errors, in turn; give the attempts it ran."""
    runs: list[int] = []
    raised = cycle(errors)
    sf.queue(queue, attempts=attempts)

    @sf.handler(queue, **options)
    async def handle(job):
        runs.append(job.attempt)
        raise next(raised)

    return runs


async def dead(sf, queue: str = "mail") -> str:
    """Let a job use up its attempts."""
    job_id: str = (await sf.enqueue(queue, {"to": "ann"}, requester="rita")).id
    await settle(sf, job_id)
    return job_id


async def settle(sf, job_id: str) -> None:
    """Let everything happen that happens to a job by itself, and then let another hour pass."""
    for _ in range(30):
        done = (await job_of(sf, job_id)).settled
        await redriver(sf).replay()
        await drain(sf)
        if done:
            return
        sf.clock.advance(3600)
    raise AssertionError("it never settled")


@pytest.mark.parametrize("key", ["reason_code", "cause"])
async def test_what_may_have_landed_runs_its_attempts_and_waits_for_the_person_a_later_rule_wants(sf, key):
    runs = failing(sf, Uncertain("no reply"))
    await sf.policy.load(policy(following=APPROVAL.format(key=key)))
    job = await job_of(sf, await dead(sf))
    assert runs == [1, 2, 3, 4, 5]
    assert (job.state, job.replays) == ("held", 0)
    assert (failure_of(job).reason_code, failure_of(job).cause) == ("max_attempts", "unknown_commit_state")
    assert (failure_of(job).cls, failure_of(job).landed) == ("transient", "maybe")
    assert (triage_of(job).action, triage_of(job).rule, triage_of(job).note) == (
        "require_approval",
        "dlq_rules#2",
        NOTE,
    )
    [asked] = await sf.approvals.list()
    assert (asked["job"], asked["approver_groups"]) == (job.id, ["governance"])


async def test_what_may_have_landed_waits_for_a_person_where_no_other_rule_fits(sf):
    runs = failing(sf, Uncertain("no reply"))
    await sf.policy.load(policy())
    job = await job_of(sf, await dead(sf))
    assert (len(runs), job.state, triage_of(job).action, triage_of(job).owner) == (
        5,
        "dead",
        "manual_review",
        "mail-team",
    )
    assert (triage_of(job).rule, triage_of(job).note) == ("dlq_rules#1 (its effect may have landed)", NOTE)
    assert job.settled
    sentence = await sf.explain(job.id)
    assert "max_attempts, caused by unknown_commit_state (Uncertain: no reply" in sentence
    assert NOTE[1:] in sentence


@pytest.mark.parametrize("landed", ["maybe", "[no, maybe]"])
async def test_a_rule_that_says_landed_maybe_replays_it(sf, landed):
    runs = failing(sf, Uncertain("no reply"))
    await sf.policy.load(policy(more=f", landed: {landed}"))
    job = await job_of(sf, await dead(sf))
    assert (len(runs), job.replays, triage_of(job).rule) == (15, 2, "dlq_rules#1 (2 of 2 replays used)")


async def test_a_doubt_that_an_earlier_attempt_left_keeps_a_letter_from_being_replayed_too(sf):
    runs = failing(sf, Uncertain("no reply"), Transient("refused"), attempts=2)
    await sf.policy.load(policy())
    job = await job_of(sf, await dead(sf))
    assert (len(runs), failure_of(job).landed, triage_of(job).action) == (2, "no", "manual_review")
    assert triage_of(job).note == NOTE


async def test_what_certainly_did_not_land_is_replayed(sf):
    runs = failing(sf, Transient("refused"), attempts=2)
    await sf.policy.load(policy())
    job = await job_of(sf, await dead(sf))
    assert (len(runs), job.replays, failure_of(job).cause, triage_of(job).note) == (
        6,
        2,
        "dependency_unavailable",
        None,
    )


async def test_a_replay_that_another_policy_scheduled_is_not_carried_out(sf):
    """So is one that an older library scheduled, which did not know the guard."""
    runs = failing(sf, Uncertain("no reply"))
    await sf.policy.load(policy(more=", landed: maybe").replace("backoff: none", "backoff: {base: 2d, cap: 2d}"))
    receipt = await sf.enqueue("mail")
    for _ in range(5):
        await drain(sf)
        sf.clock.advance(300)
    assert triage_of(await job_of(sf, receipt.id)).replay_status == "scheduled"
    await sf.policy.load(policy())
    sf.clock.advance("3d")
    await settle(sf, receipt.id)
    job = await job_of(sf, receipt.id)
    assert (len(runs), job.replays, triage_of(job).replay_status) == (5, 0, "pending_review")
    [refused] = [each for each in await sf.audit.entries() if each["kind"] == "deny"]
    assert (refused["rule"], refused["outcome"]) == ("dlq_rules#1", "approval_required")


# --- the published policy, to the letter


async def published(sf: Standfast) -> None:
    """Let a job die in each of the ways that the published policy speaks of."""
    failing(sf, Transient("refused"), attempts=2, queue="down")
    failing(sf, Uncertain("no reply"), attempts=2, queue="unsure")
    failing(sf, Permanent("no such field", reason_code="schema_invalid"), queue="misfit")
    failing(sf, Permanent("not allowed", reason_code="denied"), queue="denied")
    failing(sf, Uncertain("no reply"), queue="by_hand", replay="manual")
    failing(sf, Permanent("50 attempts", reason_code="max_scheduling_retries"), queue="elsewhere")
    await sf.policy.load(AS_PUBLISHED)


@pytest.mark.parametrize(
    ("queue", "codes", "triage", "state"),
    [
        ("down", ("max_attempts", "dependency_unavailable"), ("auto_replay", "dlq_rules#1"), "dead"),
        ("unsure", ("max_attempts", "unknown_commit_state"), ("manual_review", "dlq_rules#4"), "dead"),
        ("misfit", ("schema_invalid", None), ("quarantine", "dlq_rules#2"), "dead"),
        ("denied", ("denied", None), ("require_approval", "dlq_rules#3"), "held"),
        ("by_hand", ("unknown_commit_state", None), ("manual_review", "dlq_rules#4"), "dead"),
        ("elsewhere", ("max_attempts", None), ("auto_replay", "dlq_rules#1"), "dead"),
    ],
)
async def test_the_published_policy_routes_as_it_says(sf, queue, codes, triage, state):
    await published(sf)
    receipt = await sf.enqueue(queue)
    await drain(sf)
    sf.clock.advance(10)
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (failure_of(job).reason_code, failure_of(job).cause) == codes
    assert ((triage_of(job).action, triage_of(job).rule), job.state) == (triage, state)


# --- found by reason and by cause


async def queues(sf, **chosen: str) -> list[str]:
    return sorted(letter.queue for letter in await sf.dead_letters.list(chosen))


FOUND = [
    ({"reason_code": "max_attempts"}, ["down", "unsure"]),
    ({"reason_code": "max_scheduling_retries"}, ["down", "unsure"]),
    ({"reason_code": "unknown_commit_state"}, ["by_hand", "unsure"]),
    ({"cause": "unknown_commit_state"}, ["by_hand", "unsure"]),
    ({"cause": "dependency_unavailable"}, ["down"]),
    ({"cause": "denied"}, ["denied"]),
    ({"cause": "max_attempts"}, []),
    ({"cause": "unknown_commit_state", "reason_code": "max_attempts"}, ["unsure"]),
]


@pytest.fixture
async def letters(sf):
    await published(sf)
    await sf.policy.load("version: v1\n")
    for queue in ("down", "unsure", "by_hand", "denied"):
        await sf.enqueue(queue, {})
    await drain(sf)
    sf.clock.advance(10)
    await drain(sf)
    return sf


@pytest.mark.parametrize(("chosen", "found"), FOUND)
async def test_letters_are_found_by_reason_and_by_cause(letters, chosen, found):
    assert await queues(letters, **chosen) == found
    assert sorted(group["queue"] for group in await letters.dead_letters.groups(chosen)) == found
    assert (await letters.dead_letters.plan(chosen))["letters"] == len(found)
    purged = await letters.dead_letters.purge(chosen, confirm=len(found), by="ann", reason="test")
    assert purged == {"purged": len(found)}


async def test_jobs_are_found_by_the_cause_of_their_death_too(letters):
    found = await letters.jobs(reason_code="unknown_commit_state")
    assert sorted(job.queue for job in found) == ["by_hand", "unsure"]
    assert len(await letters.jobs(reason_code="max_scheduling_retries")) == 2


async def test_letters_of_one_cause_are_one_group_whether_or_not_they_spent_their_attempts(sf):
    def gone(kind: type[HandlerFailure], code: str) -> HandlerFailure:
        return kind("gone", error_kind="Gone", reason_code=code)

    failing(sf, gone(Permanent, "crm_down"), gone(Transient, "crm_down"), gone(Transient, "ledger_down"), attempts=1)
    for _ in range(3):
        await dead(sf)
    found = [(group["count"], group["reason_code"], group["cause"]) for group in await sf.dead_letters.groups()]
    assert found == [(2, "max_attempts", "crm_down"), (1, "max_attempts", "ledger_down")]


async def test_letters_of_an_older_library_get_their_cause(letters):
    store = letters._store  # noqa: SLF001 - no verb writes what an older library wrote
    dialect = "sqlite" if isinstance(store._engine, SqliteEngine) else "postgres"  # noqa: SLF001
    gone = {
        "sqlite": "UPDATE ending SET failure = json_remove(failure, '$.cause')",
        "postgres": "UPDATE ending SET failure = (failure::jsonb - 'cause')::text",
    }
    behind.change(store, gone[dialect])
    assert await queues(letters, cause="dependency_unavailable") == []
    [step] = [each.sql for each in migrations(dialect) if "their cause too" in each.sql]
    behind.change(store, step.partition(";")[0])
    assert await queues(letters, cause="dependency_unavailable") == ["down"]
    assert await queues(letters, cause="unknown_commit_state") == ["by_hand", "unsure"]
    [job] = await letters.dead_letters.list({"queue": "down"})
    assert (failure_of(job).reason_code, failure_of(job).landed, failure_of(job).cause) == (
        "max_attempts",
        "no",
        "dependency_unavailable",
    )
