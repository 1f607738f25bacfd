"""The policy in force: who publishes it, what it decides at a death and before a replay, and what a broken one does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from standfast import Effect, JobView, Permanent, Standfast, Transient
from standfast.errors import PolicyRefused
from standfast.testing import drain, memory
from standfast.testing.kit import move
from standfast.wings.approvals import scripts as approvals
from standfast.wings.policy.facts import Facts
from tests.store import behind
from tests.waiting import job_of
from tests.worker.governing import broken, letter, redriver

AUTO = """
version: v1
dlq_rules:
  - match: {reason_code: max_attempts}
    action: auto_replay
    max_replays: 2
    backoff: {base: 60, cap: 600}
replay_rules:
  - match: {}
    decision: allow
"""
DENY = """
version: v1
replay_rules:
  - match: {queue: "mail*"}
    decision: deny
    why: "not here"
  - match: {}
    decision: allow
"""
ALLOW = DENY.replace("decision: deny", "decision: allow")
BROKEN = "version: v1\nreplay_rules: [{match: {}, decision: maybe}]\n"
APPROVAL = """
version: v1
dlq_rules:
  - match: {reason_code: validation*}
    action: require_approval
    approver_group: governance
  - match: {}
    action: quarantine
    owner: mail-team
"""


def failing(sf: Standfast, queue: str = "mail", error: type[Exception] = Transient, **options) -> set[str]:
    """Declare a queue whose jobs fail while its name is in the set that is given back."""
    down = {queue}
    sf.queue(queue, attempts=1)

    @sf.handler(queue, **options)
    async def handle(job):
        if job.queue in down:
            raise error("it is away")

    return down


async def die(sf: Standfast, queue: str = "mail", **options) -> str:
    receipt = await sf.enqueue(queue, {"n": 1}, **{"requester": "rita", **options})
    await drain(sf)
    assert receipt.id is not None
    return receipt.id


def triage(job: JobView):
    assert job.triage is not None
    return job.triage


async def entries(sf, *kinds: str):
    return [each for each in await sf.audit.entries() if each["kind"] in kinds]


# --- at a death


async def test_a_death_is_judged_by_the_policy_in_force(sf):
    failing(sf)
    await sf.policy.load(AUTO)
    job = await job_of(sf, await die(sf))
    said = triage(job)
    assert (job.state, said.action, said.rule, said.replay_status) == (
        "dead",
        "auto_replay",
        "dlq_rules#1",
        "scheduled",
    )
    assert job.policy_snapshot == sf.policy.snapshot != "built-in"
    assert job.fingerprint is not None
    assert job.fingerprint.startswith("1-")
    assert job.finished_at is not None
    assert 53 <= (said.replay_at - job.finished_at).total_seconds() <= 60
    assert not job.settled


async def test_without_a_policy_the_catalogue_decides(sf):
    failing(sf)
    job = await job_of(sf, await die(sf))
    assert (triage(job).rule, triage(job).replay_status, job.policy_snapshot) == (
        "built-in",
        "pending_review",
        "built-in",
    )
    assert (await sf.dead_letters.replay(job.id, by="ann"))["outcome"] == "replayed"


async def test_what_a_rule_looks_at_is_known_at_the_death(sf):
    failing(sf, error=Permanent, risk="high")
    rule = (
        "{labels: {team: billing}, risk: high, session: s1, requester: rita, handler: mail, attempts: 1, age: '>= 0s'}"
    )
    await sf.policy.load(f"version: v1\ndlq_rules:\n  - match: {rule}\n    action: quarantine\n    owner: ops\n")
    job = await job_of(sf, await die(sf, labels={"team": "billing"}, risk="low", session="s1"))
    assert (triage(job).rule, triage(job).owner, triage(job).replay_status) == ("dlq_rules#1", "ops", "quarantined")


async def test_what_waited_too_long_is_judged_by_the_policy_too(sf):
    sf.queue("mail", max_age=10)
    sf.handler("mail", risk="high")(print)
    rule = "{reason_code: max_age, risk: high, labels: {a: b}}"
    await sf.policy.load(f"version: v1\ndlq_rules:\n  - match: {rule}\n    action: quarantine\n")
    receipt = await sf.enqueue("mail", delay=5, labels={"a": "b"})
    sf.clock.advance(60)
    await drain(sf)
    async with sf.worker():
        job = await sf.wait(receipt.id, 10)
    assert (job.state, triage(job).replay_status, triage(job).rule) == ("dead", "quarantined", "dlq_rules#1")


async def test_require_approval_holds_the_letter_and_asks_at_once(sf):
    down = failing(sf, error=Permanent)
    await sf.policy.load(APPROVAL.replace("validation*", "'*'"))
    job = await job_of(sf, await die(sf))
    assert (job.state, triage(job).replay_status, triage(job).approver_group) == (
        "held",
        "approval_pending",
        "governance",
    )
    [asked] = await sf.approvals.list()
    assert (asked["job"], asked["asked_by"], asked["approver_groups"]) == (job.id, None, ["governance"])
    down.clear()
    answer = await sf.approvals.approve(asked["id"], by="bea", groups=["governance"])
    assert answer["outcome"] == "replayed"
    await drain(sf)
    assert (await job_of(sf, job.id)).state == "completed"


async def test_the_requester_may_not_approve_what_was_asked_for_at_the_death(sf):
    failing(sf, error=Permanent)
    await sf.policy.load(APPROVAL.replace("validation*", "'*'"))
    await die(sf)
    [asked] = await sf.approvals.list()
    with pytest.raises(Exception, match="requested the work"):
        await sf.approvals.approve(asked["id"], by="rita", groups=["governance"])


async def test_a_job_cancelled_while_it_ran_asks_for_nothing(sf):
    sf.queue("mail", attempts=1)
    await sf.policy.load(APPROVAL.replace("validation*", "'*'"))

    @sf.handler("mail")
    async def handle(job):
        await sf.cancel(job.id)
        raise Permanent("no")

    job = await job_of(sf, await die(sf))
    assert job.state == "cancelled"
    assert await sf.approvals.list() == []


# --- automatic replays


async def test_a_letter_is_replayed_by_itself_when_its_time_has_come(sf):
    down = failing(sf)
    await sf.policy.load(AUTO)
    job_id = await die(sf)
    await drain(sf)
    assert (await job_of(sf, job_id)).state == "dead", "it is not due"
    sf.clock.advance(61)
    down.clear()
    await drain(sf)
    await drain(sf)
    job = await job_of(sf, job_id)
    assert (job.state, job.replays) == ("completed", 1)
    [chained] = await entries(sf, "auto_replay")
    assert (chained["job"], chained["by"], chained["rule"]) == (job_id, "policy", "replay_rules#1")
    assert chained["snapshot"] == sf.policy.snapshot
    assert [line.reason_code for line in job.history][-1] == "replayed"
    assert job.history[-1].reason == "auto_replay by dlq_rules#1"


async def test_every_replay_counts_until_a_person_must_decide(sf):
    failing(sf)
    await sf.policy.load(AUTO)
    job_id = await die(sf)
    await sf.dead_letters.replay(job_id, by="ann")
    await drain(sf)
    assert triage(await job_of(sf, job_id)).replay_status == "scheduled"
    sf.clock.advance(121)
    await drain(sf)
    await drain(sf)
    job = await job_of(sf, job_id)
    assert (job.replays, triage(job).replay_status) == (2, "pending_review")
    assert triage(job).rule == "dlq_rules#1 (2 of 2 replays used)"
    assert job.settled
    assert job.first_failure is not None


async def test_what_is_denied_when_due_waits_for_another_policy(sf):
    down = failing(sf)
    await sf.policy.load(AUTO)
    job_id = await die(sf)
    await sf.policy.load(AUTO.replace("decision: allow", "decision: deny"))
    sf.clock.advance(61)
    assert await redriver(sf).replays_due() == 0
    job = await job_of(sf, job_id)
    assert (job.state, triage(job).replay_status, triage(job).replay_at) == ("dead", "denied", None)
    [denied] = await entries(sf, "deny")
    assert (denied["outcome"], denied["rule"]) == ("denied", "replay_rules#1")
    assert denied["detail"]["died_under"] == job.policy_snapshot
    sf.clock.advance(3600)
    await redriver(sf).step()
    assert len(await entries(sf, "deny")) == 1, "it is asked once"
    down.clear()
    await sf.policy.load(AUTO)
    await redriver(sf).step()
    await drain(sf)
    assert (await job_of(sf, job_id)).state == "completed"


async def test_a_letter_that_needs_an_approval_is_left_to_a_person(sf):
    failing(sf)
    await sf.policy.load(AUTO)
    job_id = await die(sf)
    await sf.policy.load(AUTO.replace("decision: allow", "decision: require_approval"))
    sf.clock.advance(61)
    await redriver(sf).step()
    assert triage(await job_of(sf, job_id)).replay_status == "pending_review"
    assert await sf.approvals.list() == [], "nobody asked"
    assert (await sf.dead_letters.replay(job_id, by="ann"))["outcome"] == "approval_required"


async def test_what_was_set_apart_meanwhile_is_not_replayed_by_itself(sf):
    failing(sf)
    await sf.policy.load(AUTO)
    job_id, other = await die(sf), await die(sf)
    await sf.dead_letters.quarantine(job_id, by="ann", reason="look at it first")
    await sf.cancel(other)
    sf.clock.advance(61)
    await redriver(sf).step()
    assert (await job_of(sf, job_id)).state == "dead"
    assert (await job_of(sf, other)).state == "cancelled"
    assert (await sf._store.read(approvals.pending_work(sf._store.now(), 0.0)))[2] is False  # noqa: SLF001 - nothing is left due


async def test_only_a_scheduled_letter_is_replayed_by_itself_whatever_its_row_says(sf):
    failing(sf)
    await sf.policy.load(AUTO)
    job_id = await die(sf)
    behind.change(sf._store, "UPDATE ending SET triage = replace(triage, 'scheduled', 'quarantined')")  # noqa: SLF001
    sf.clock.advance(61)
    await redriver(sf).step()
    assert (await job_of(sf, job_id)).state == "dead"


async def test_two_workers_replay_a_letter_once(sf):
    failing(sf)
    await sf.policy.load(AUTO)
    job_id = await die(sf)
    sf.clock.advance(61)
    one, two = redriver(sf, "one"), redriver(sf, "two")
    await one.replays_due()
    await two.replays_due()
    assert (await job_of(sf, job_id)).replays == 1
    assert len(await entries(sf, "auto_replay")) == 1


# --- before a replay


async def test_a_denied_replay_says_why_and_is_written_down_once(sf):
    failing(sf)
    job_id = await die(sf)
    await sf.policy.load(DENY)
    answer = await sf.dead_letters.replay(job_id, by="ann", reason="please")
    assert answer == {"outcome": "denied", "rule": "replay_rules#1", "why": "not here"}
    assert (await sf.dead_letters.replay(job_id, by="ann"))["outcome"] == "denied"
    job = await job_of(sf, job_id)
    assert (job.state, triage(job).replay_status, job.replays) == ("dead", "denied", 0)
    [denied] = await entries(sf, "deny")
    assert (denied["by"], denied["reason"], denied["rule"]) == ("ann", "please", "replay_rules#1")
    assert (denied["snapshot"], denied["payload_sha256"]) == (sf.policy.snapshot, job.payload_sha256)
    assert (await sf.stats())["counters"]["replay_denied"] == 2
    await sf.policy.load(ALLOW)
    assert (await sf.dead_letters.replay(job_id, by="ann"))["outcome"] == "replayed"


async def test_a_retry_of_a_letter_obeys_the_policy(sf):
    failing(sf)
    job_id = await die(sf)
    await sf.policy.load(DENY)
    reply = await sf.retry(job_id)
    assert (reply["status"], reply["reason_code"]) == ("failed", "denied")
    assert "not here" in reply["hint"]
    await sf.policy.load(DENY.replace("decision: deny", "decision: require_approval"))
    reply = await sf.retry(job_id)
    assert (reply["status"], reply["reason_code"]) == ("held", "approval_required")
    assert reply["approval"] == (await sf.approvals.list())[0]["id"]


async def test_a_replay_under_another_policy_than_the_deaths_says_so(sf):
    failing(sf)
    job_id = await die(sf)
    await sf.policy.load(ALLOW)
    await sf.dead_letters.replay(job_id, by="ann")
    [chained] = await entries(sf, "replay")
    assert chained["detail"] == {"died_under": "built-in"}
    assert chained["snapshot"] == sf.policy.snapshot


async def test_the_policy_is_asked_as_the_original_requester(sf):
    failing(sf)
    job_id = await die(sf)
    await sf.policy.load(DENY.replace('queue: "mail*"', "requester: rita"))
    assert (await sf.dead_letters.replay(job_id, by="somebody else"))["outcome"] == "denied"


# --- somebody's own decision


async def test_ones_own_code_is_asked_with_the_facts(sf):
    failing(sf)
    job_id = await die(sf, labels={"team": "billing"})
    seen: list[Facts] = []

    def decide(facts: Facts) -> dict[str, str]:
        seen.append(facts)
        return {"decision": "deny", "why": "it is Friday"}

    sf.policy.use(decide)
    answer = await sf.dead_letters.replay(job_id, by="ann")
    assert answer == {"outcome": "denied", "rule": "external", "why": "it is Friday"}
    assert (seen[0].queue, seen[0].requester, seen[0].labels) == ("mail", "rita", {"team": "billing"})
    sf.policy.use(None)
    assert (await sf.dead_letters.replay(job_id, by="ann"))["outcome"] == "replayed"


async def _explodes(facts: Facts) -> str:
    raise RuntimeError(f"no answer about {facts.queue}")


async def _allows(facts: Facts) -> str:
    return "allow" if facts.queue == "mail" else "deny"


@pytest.mark.parametrize(
    ("external", "outcome", "why"),
    [
        (_allows, "replayed", None),
        (_explodes, "denied", "RuntimeError: no answer about mail"),
        (lambda facts: facts.attempts / 0, "denied", "ZeroDivisionError"),
        (lambda facts: facts.queue == "mail", "denied", "a value of type bool"),
        (lambda: "allow", "denied", "TypeError"),
    ],
)
async def test_whatever_ones_own_code_does_a_strange_answer_denies(sf, external, outcome, why):
    failing(sf)
    job_id = await die(sf)
    sf.policy.use(external)
    answer = await sf.dead_letters.replay(job_id, by="ann")
    assert answer["outcome"] == outcome
    assert why is None or why in answer["why"]


async def test_ones_own_code_cannot_allow_what_the_rules_deny(sf):
    failing(sf)
    job_id = await die(sf)
    await sf.policy.load(DENY)
    sf.policy.use(lambda facts: "allow" if facts.queue else "deny")
    assert (await sf.dead_letters.replay(job_id, by="ann"))["rule"] == "replay_rules#1"


# --- publishing


async def test_a_change_is_chained_once_with_who_and_from_what(sf):
    await sf.policy.load(DENY)
    before = sf.policy.snapshot
    await sf.policy.load(f"# said differently\n{DENY}")
    await sf.policy.load(ALLOW)
    first, second = await entries(sf, "policy")
    assert (first["snapshot"], first["detail"]) == (before, {"before": "built-in", "source": "code"})
    assert (second["snapshot"], second["detail"]["before"]) == (sf.policy.snapshot, before)
    shown = await sf.policy.show()
    assert (shown["text"], shown["by"], shown["issue"]) == (ALLOW, first["by"], None)


async def test_a_refused_policy_changes_nothing(sf):
    await sf.policy.load(DENY)
    with pytest.raises(PolicyRefused, match="line 2"):
        sf.policy.load(BROKEN)
    assert (await sf.policy.show())["text"] == DENY
    assert (await sf.health())["issues"] == []


async def test_check_tells_what_a_candidate_would_change_and_changes_nothing(sf):
    failing(sf)
    job_id = await die(sf)
    found = await sf.policy.check(DENY)
    assert (found["letters"], found["changed"], found["in_force"]) == (1, 1, "built-in")
    [change] = found["decisions"]
    assert (change["before"], change["after"], change["samples"]) == ("allow", "deny", [job_id])
    assert sf.policy.snapshot == "built-in"
    with pytest.raises(PolicyRefused):
        await sf.policy.check(BROKEN)


async def test_a_policy_moves_with_an_application_to_another_store():
    home, away = memory(), memory()
    failing(away)
    away.policy.load(DENY)
    move(away, home)
    async with away:
        job_id = await die(away)
        assert (await away.dead_letters.replay(job_id, by="ann"))["outcome"] == "denied"


# --- the file


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    path: Path = tmp_path / "rules.yaml"
    monkeypatch.setenv("STANDFAST_POLICY", str(path))
    return path


def written(path: Path, text: str) -> None:
    """Replace a file, in a way that shows even if the clock of the file system is coarse."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text)
    os.utime(path, ns=(before + 1_000_000_000,) * 2)


async def issues(sf) -> list[str]:
    return [issue for issue in (await sf.health())["issues"] if issue.startswith("policy")]


async def test_a_file_is_in_force_once_the_store_is_used(url, file):
    file.write_text(DENY)
    async with Standfast(url) as sf:
        assert (await sf.policy.show())["source"] == str(file)
        snapshot = sf.policy.snapshot
    file.unlink()
    async with Standfast(url) as reader:
        assert reader.policy.snapshot == snapshot


async def test_the_default_file_is_used_if_it_is_there(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with Standfast(url) as sf:
        assert sf.policy.snapshot == "built-in"
        assert await issues(sf) == []
    (tmp_path / "standfast-policy.yaml").write_text(DENY)
    async with Standfast(url) as sf:
        assert (await sf.policy.show())["text"] == DENY


@pytest.mark.parametrize("text", [None, BROKEN, "\xff"])
async def test_a_configured_file_that_never_was_good_denies_every_replay(url, file, text):
    if text is not None:
        file.write_text(text, encoding="latin-1")
    async with Standfast(url) as sf:
        failing(sf)
        job_id = await die(sf)
        assert triage(await job_of(sf, job_id)).rule == "broken policy"
        answer = await sf.dead_letters.replay(job_id, by="ann")
        assert (answer["outcome"], answer["rule"]) == ("denied", "broken policy")
        [issue] = await issues(sf)
        assert "every replay is denied" in issue
        assert str(file) in issue
    file.unlink(missing_ok=True)


@pytest.mark.usefixtures("file")
async def test_what_is_denied_for_want_of_a_policy_is_denied_in_every_process(url, monkeypatch):
    async with Standfast(url) as sf:
        failing(sf)
        job_id = await die(sf)
    monkeypatch.delenv("STANDFAST_POLICY")
    async with Standfast(url) as other:
        assert (await other.dead_letters.replay(job_id, by="ann"))["outcome"] == "denied"
        assert len(await issues(other)) == 1
        await other.policy.load(ALLOW)
        assert await issues(other) == []
        assert (await other.dead_letters.replay(job_id, by="ann"))["outcome"] == "replayed"


async def test_at_a_start_with_a_broken_file_the_last_good_one_holds(url, file):
    file.write_text(DENY)
    async with Standfast(url) as sf:
        snapshot = (await sf.policy.show())["snapshot"]
    file.write_text(BROKEN)
    async with Standfast(url) as sf:
        assert (await sf.policy.show())["snapshot"] == snapshot
        [issue] = await issues(sf)
        assert "the last good one stays in force" in issue


async def test_a_worker_takes_up_a_changed_file_and_keeps_the_last_good_one(url, file):
    written(file, ALLOW)
    async with Standfast(url) as sf:
        await sf.health()
        written(file, DENY)
        await sf.policy.reload()
        denying = sf.policy.snapshot
        assert (await sf.policy.show())["text"] == DENY
        written(file, BROKEN)
        await sf.policy.reload()
        assert (await sf.policy.show())["snapshot"] == denying
        [issue] = await issues(sf)
        assert "unknown decision 'maybe'" in issue
        file.unlink()
        await sf.policy.reload()
        [issue] = await issues(sf)
        assert "does not exist" in issue
        written(file, DENY)
        await sf.policy.reload()
        assert await issues(sf) == []
        assert len(await entries(sf, "policy")) == 2


async def test_another_process_decides_by_what_was_published_meanwhile(url):
    async with Standfast(url) as sf, Standfast(url) as other:
        failing(sf)
        failing(other)
        await other.health()
        first = await die(other)
        await sf.policy.load(AUTO)
        second = await die(other)
        assert triage(await job_of(other, first)).rule == "built-in"
        assert triage(await job_of(other, second)).rule == "dlq_rules#1"
        assert other.policy.snapshot == sf.policy.snapshot
        await sf.policy.load(DENY)
        assert (await other.dead_letters.replay(first, by="ann"))["outcome"] == "denied"


# --- health


async def test_denials_and_growth_show_in_health(sf):
    failing(sf)
    ids = [await die(sf) for _ in range(5)]
    await sf.policy.load(DENY)
    for job_id in ids[:4]:
        await sf.dead_letters.replay(job_id, by="ann")
    found = (await sf.health())["issues"]
    assert not any("denied" in issue or "growing" in issue for issue in found)
    await sf.dead_letters.replay(ids[4], by="ann")
    for _ in range(6):
        await die(sf)
    found = (await sf.health())["issues"]
    assert "mail: 5 replays denied in the last hour" in found
    assert "mail: 11 dead letters in the last 10 minutes (growing)" in found
    sf.clock.advance(3601)
    found = (await sf.health())["issues"]
    assert not any("denied" in issue or "growing" in issue for issue in found)


@pytest.mark.parametrize(("written", "seconds"), [("approval_ttl = '2h'", 7200), ("", 86400)])
async def test_an_approval_that_is_asked_for_with_a_death_waits_as_long_as_configured(
    tmp_path, monkeypatch, written, seconds
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "standfast.toml").write_text(f"[store]\n{written}\n", encoding="utf-8")
    async with memory() as sf:
        sf.policy.load("version: v1\ndlq_rules:\n  - match: {}\n    action: require_approval\n")
        broken(sf, "mail")
        await letter(sf)
        [asked] = await sf.approvals.list()
        assert (asked["expires_at"] - asked["asked_at"]).total_seconds() == seconds


@pytest.mark.parametrize("mode", ["replay", "verify_first", "manual"])
async def test_a_check_foresees_what_becomes_of_letters_whose_handlers_may_not_be_repeated(sf, mode):
    async def look(_job):
        return False

    effects: dict[str, Any] = {"effects": [Effect("ticket", look)]} if mode == "verify_first" else {}
    failing(sf, replay=mode, **effects)
    job_id = await die(sf)
    automatic = AUTO.replace("match: {reason_code: max_attempts}", "match: {}")
    [foreseen] = (await sf.policy.check(automatic))["actions"]
    await sf.policy.load(automatic)
    await sf.dead_letters.replay(job_id, by="ann")
    await drain(sf)
    assert foreseen["after"] == triage(await job_of(sf, job_id)).action
