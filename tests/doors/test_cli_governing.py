"""dead plan, dead redrive, approvals list, approvals approve, approvals deny."""

import asyncio

import pytest

from standfast import Standfast
from standfast.spine.accept import user
from standfast.testing import drain
from standfast.wings.policy.rules import BUILT_IN
from tests.doors.stages import job_of, outage, refuse, told, work
from tests.worker.governing import Rulebook, govern, redriver


@pytest.fixture
def letters(cli):
    """Let three jobs of one queue die, and one of another."""
    ids = [job_of(cli, "away", str(n)) for n in range(3)]
    job_of(cli, "refused")
    work(away=outage, refused=refuse)
    return ids


def drive(*, failing: bool = False) -> None:
    """Take redrives as far as they go, as a worker does."""

    async def run() -> None:
        async with Standfast() as sf:
            sf.queue("away", attempts=1)
            sf.handler("away")(outage if failing else lambda _job: None)
            for _ in range(3):
                await redriver(sf).step()
                await drain(sf)

    asyncio.run(run())


def ask(*, asked_by: str = "alex", group: str | None = None) -> tuple[str, str]:
    """Have an approval filed, as a policy would; give the letter's id and the approval's."""

    async def run() -> tuple[str, str]:
        async with Standfast() as sf:
            book = Rulebook("require_approval", group)
            book.snapshot = BUILT_IN.snapshot
            letters = govern(sf, book)
            receipt = await sf.enqueue("away", {}, requester="rita")
            sf.queue("away", attempts=1)
            sf.handler("away")(outage)
            await drain(sf)
            answer = await letters.replay(receipt.id or "", by=asked_by, reason="mended")
            return receipt.id or "", answer["approval"]

    return asyncio.run(run())


class TestRedrive:
    @pytest.mark.usefixtures("letters")
    def test_a_plan_counts_and_names_the_next_command(self, cli):
        code, plan = told(cli, "dead", "plan", "--queue", "away")
        assert (code, plan["letters"], plan["would_run"]) == (0, 3, 3)
        said = cli("dead", "plan", "--queue", "refused").stdout
        assert "would run" in said
        assert "standfast dead redrive " in said

    def test_a_plan_is_carried_out(self, cli, letters):
        _, plan = told(cli, "dead", "plan", "--queue", "away")
        code, started = told(cli, "dead", "redrive", plan["token"], "--rate", "100/s", "--reason", "mended")
        assert (code, started["state"], started["by"], started["rate"]) == (0, "running", user(), 100.0)
        drive()
        code, ended = told(cli, "dead", "redrive", plan["token"], "--show")
        assert (code, ended["state"], ended["completed"]) == (0, "finished", 3)
        assert told(cli, "status", letters[0])[1]["history"][-1]["reason"] == "mended"

    @pytest.mark.usefixtures("letters")
    def test_a_halt_is_a_failure_and_can_be_resumed(self, cli):
        _, plan = told(cli, "dead", "plan", "--queue", "away")
        cli("dead", "redrive", plan["token"], "--canary", "1", "--halt-on", "0.5")
        drive(failing=True)
        halted = cli("dead", "redrive", plan["token"], "--show")
        assert halted.exit_code == 1
        assert "is halted: the one that was tried first failed again" in halted.stdout
        assert told(cli, "dead", "redrive", plan["token"], "--resume")[1]["state"] == "running"
        assert told(cli, "dead", "redrive", plan["token"], "--pause")[1]["state"] == "paused"
        code, cancelled = told(cli, "dead", "redrive", plan["token"], "--cancel")
        assert (code, cancelled["state"]) == (0, "cancelled")

    @pytest.mark.usefixtures("letters")
    def test_what_cannot_be(self, cli, letters):
        assert cli("dead", "redrive", "nothing").exit_code == 3
        _, plan = told(cli, "dead", "plan")
        assert cli("dead", "redrive", plan["token"], "--rate", "fast").exit_code == 2
        cli("dead", "replay", letters[0])
        drifted = cli("dead", "redrive", plan["token"])
        assert drifted.exit_code == 1
        assert "plan again" in drifted.stderr


class TestApprovals:
    def test_nothing_waits(self, cli):
        job_of(cli, "away")
        assert cli("approvals", "list").stdout == "nothing waits for an answer\n"
        assert cli("approvals", "approve", "nothing").exit_code == 3

    def test_a_yes_replays(self, cli):
        job_id, approval = ask()
        assert approval in cli("approvals", "list").stdout
        code, answer = told(cli, "approvals", "approve", approval)
        assert (code, answer["outcome"], answer["job"]) == (0, "replayed", job_id)
        assert told(cli, "status", job_id)[1]["state"] == "queued"
        assert told(cli, "approvals", "list")[1] == {"items": [], "more": False}
        assert told(cli, "approvals", "list", "--all")[1]["items"][0]["answered_by"] == user()

    def test_a_no_needs_a_reason(self, cli):
        job_id, approval = ask()
        assert cli("approvals", "deny", approval).exit_code == 2
        assert cli("approvals", "deny", approval, "--reason", "unsafe").stdout == f"{job_id} denied: unsafe\n"
        assert told(cli, "status", job_id)[1]["state"] == "dead"

    def test_nobody_approves_what_they_asked_for(self, cli):
        _, approval = ask(asked_by=user())
        refused = cli("approvals", "approve", approval)
        assert refused.exit_code == 4
        assert "another person must approve; nothing was changed" in refused.stderr

    def test_a_file_in_the_callers_directory_makes_nobody_a_member_of_a_group(self, cli, here):
        _, approval = ask(group="governance")
        assert cli("approvals", "approve", approval).exit_code == 4
        (here / "standfast.toml").write_text(f'[groups]\n"{user()}" = ["governance"]\n')
        for _ in range(2):  # the first look must not have published it for the second
            assert cli("approvals", "approve", approval).exit_code == 4
            cli("enqueue", "mail", "{}")
        work()  # a process that works publishes what its file says
        assert cli("approvals", "approve", approval).exit_code == 0

    def test_a_letter_that_waits_says_for_which_approval(self, cli):
        job_id, approval = ask()
        shown = cli("dead", "show", job_id).stdout
        assert f"standfast approvals approve {approval}" in shown
        assert "standfast dead replay" not in shown
        assert "approval_pending" in cli("dead", "list").stdout
        assert "away/away" in cli("approvals", "list").stdout

    def test_an_approval_that_was_given_says_by_whom(self, cli):
        _, approval = ask()
        assert cli("approvals", "approve", approval).exit_code == 0
        assert f"{user()} approved it before" in cli("approvals", "approve", approval).stdout

    def test_what_is_not_listed_is_told(self, cli):
        ask()
        ask()
        page = cli("approvals", "list", "--limit", "1")
        assert "there are more than these 1" in page.stderr
        assert told(cli, "approvals", "list", "--limit", "1")[1]["more"] is True
        assert told(cli, "approvals", "list", "--limit", "2")[1]["more"] is False


def test_a_plan_of_nothing_offers_nothing(cli):
    job_of(cli, "away")
    planned = cli("dead", "plan")
    assert planned.exit_code == 0
    assert "carry it out" not in planned.stdout
