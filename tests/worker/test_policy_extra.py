"""A policy file beside processes that cannot read it yet: the extra is missing, and is installed while they run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from standfast import Permanent, Standfast
from standfast.testing import drain

POLICY = """version: v1
replay_rules:
  - match: {}
    decision: require_approval
"""
COMMAND = 'pip install "standfast[policy]"'


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    """Give the place where this application's policy is."""
    monkeypatch.setenv("STANDFAST_POLICY", str(tmp_path / "policy.yaml"))
    return Path(tmp_path, "policy.yaml")


@pytest.fixture
def without_extra(monkeypatch):
    """Make importing the YAML reader fail, as it does where the extra is not installed; give what installs it."""
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)
    return monkeypatch.undo


async def died(sf: Standfast) -> str:
    @sf.handler("charge", replay="manual")
    async def charge(_job):
        raise Permanent("card declined")

    job_id = (await charge.enqueue({})).id
    await drain(sf)
    assert job_id is not None
    return job_id


async def test_a_worker_reads_the_policy_once_the_extra_is_installed(url, file, without_extra):
    file.write_text(POLICY)
    async with Standfast(url) as sf:
        job_id = await died(sf)
        [issue] = [each for each in (await sf.health())["issues"] if each.startswith("policy:")]
        assert issue == (
            f"policy: {file} cannot be read without an extra; run: {COMMAND}; every replay is denied until it is "
            "fixed (workers try again by themselves; restart other processes)"
        )
        assert COMMAND in (await sf.dead_letters.replay(job_id, by="ann"))["why"]
        await sf.policy.reload()
        assert sf.policy.declares() == "broken"
        without_extra()
        await sf.policy.reload()
        assert [each for each in (await sf.health())["issues"] if each.startswith("policy:")] == []
        assert (await sf.policy.show())["text"] == POLICY
        assert sf.policy.declares() == sf.policy.snapshot


async def test_a_failed_try_is_logged_once(url, file, without_extra, caplog):
    del without_extra
    file.write_text(POLICY)
    async with Standfast(url) as sf:
        for _ in range(3):
            await sf.policy.reload()
    assert len([each for each in caplog.messages if COMMAND in each]) == 1


async def test_a_letter_of_that_time_says_why_no_rule_applied(url, file, without_extra):
    file.write_text(POLICY)
    async with Standfast(url) as sf:
        job_id = await died(sf)
        without_extra()
        await sf.policy.reload()
        assert "When it died, the policy could not be read, so no rule of dlq_rules applied" in await sf.explain(job_id)
        letter = await sf.dead_letters.get(job_id)
        assert letter is not None
        assert letter.triage is not None
        assert letter.triage.note is not None
        assert letter.triage.note.endswith("replay_rules apply as soon as a policy can be read")


async def test_an_approval_names_the_rule_that_requires_it_and_no_broken_policy(url, file, without_extra):
    file.write_text(POLICY)
    async with Standfast(url) as sf:
        job_id = await died(sf)
        without_extra()
        await sf.policy.reload()
        for _ in range(2):  # the second request meets the first one's demand
            answer = await sf.dead_letters.replay(job_id, by="ann")
        assert (answer["outcome"], answer["rule"]) == ("approval_required", "replay_rules#1")
        [approval] = await sf.approvals.list()
        assert approval["rule"] == "replay_rules#1"
