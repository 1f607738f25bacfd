"""Who approves: groups are read in the store, and a token that the asker made afterwards is the asker's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from standfast import Standfast
from standfast.errors import ApprovalRefused
from tests.worker.governing import broken, letter

ASKING = """
version: v1
replay_rules:
  - match: {}
    decision: require_approval
    approver_group: governance
"""
ANYBODY = ASKING.replace("    approver_group: governance\n", "")


async def asked(sf: Standfast, policy: str = ANYBODY, by: str = "alex") -> str:
    """Give an approval that somebody asked for."""
    broken(sf, "mail")
    await sf.policy.load(policy)
    return str((await sf.dead_letters.replay(await letter(sf), by=by))["approval"])


async def token(sf: Standfast, name: str, by: str, made_with: str | None = None) -> str:
    """Make a token for bea; give its id."""
    made = await sf.tokens.create(name, person="bea", role="admin", by=by, made_with=made_with)
    return str(made["id"])


@pytest.mark.parametrize("maker", ["alex", "Alex ", "rita"])
async def test_nobody_approves_with_a_token_that_the_asker_made_afterwards(sf, maker):
    """Nor with one that whoever requested the work made."""
    approval = await asked(sf)
    made = await token(sf, "bea", maker)
    with pytest.raises(ApprovalRefused, match="made this token"):
        await sf.approvals.approve(approval, by="bea", token=made)
    assert (await sf.approvals.get(approval))["state"] == "pending"


async def test_nor_with_one_that_was_made_with_such_a_token(sf):
    approval = await asked(sf)
    first = await token(sf, "first", "alex")
    second = await token(sf, "second", "bea", made_with=first)
    third = await token(sf, "third", "bea", made_with=second)
    with pytest.raises(ApprovalRefused, match="made this token"):
        await sf.approvals.approve(approval, by="bea", token=third)


async def test_a_token_from_before_or_from_somebody_else_approves(sf):
    before = await token(sf, "before", "alex")
    sf.clock.advance(1)
    approval = await asked(sf)
    await token(sf, "after", "carl", made_with=before)
    assert (await sf.approvals.approve(approval, by="bea", token=before))["outcome"] == "replayed"


async def test_a_new_token_that_another_admin_made_approves(sf):
    old = await token(sf, "old", "alex")
    sf.clock.advance(1)
    approval = await asked(sf)
    made = await token(sf, "after", "carl", made_with=old)
    assert (await sf.approvals.approve(approval, by="bea", token=made))["outcome"] == "replayed"


@pytest.fixture
def governed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> str:
    """Give a store, and a directory whose file puts bea into the group that must approve."""
    (tmp_path / "standfast.toml").write_text('[groups]\nbea = ["governance"]\n')
    monkeypatch.chdir(tmp_path)
    return url


async def test_groups_are_published_by_a_process_that_works_and_read_in_the_store(governed, monkeypatch):
    async with Standfast(governed) as worker:
        approval = await asked(worker, ASKING)
        monkeypatch.chdir("/")
        async with Standfast(governed) as elsewhere:  # without a file
            with pytest.raises(ApprovalRefused, match="not in the group governance"):
                await elsewhere.approvals.approve(approval, by="carl")
            assert (await elsewhere.approvals.approve(approval, by="bea"))["outcome"] == "replayed"
        [said] = await worker.audit.last(5, kind="settings")
        assert said["detail"] == {"setting": "groups", "value": {"bea": ["governance"]}}


async def test_a_file_that_names_somebody_no_more_takes_them_out_of_their_groups(governed, tmp_path):
    async with Standfast(governed) as worker:
        approval = await asked(worker, ASKING)
    (tmp_path / "standfast.toml").write_text("[groups]\n")
    async with Standfast(governed) as worker:
        with pytest.raises(ApprovalRefused, match="not in the group"):
            await worker.approvals.approve(approval, by="bea")
