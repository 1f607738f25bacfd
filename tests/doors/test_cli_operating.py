"""retry, cancel, explain, queue list|pause|resume and stats."""

import asyncio
import json
import os

import pytest

from standfast import Standfast
from standfast.spine.accept import user
from standfast.wings.jobs import commands as job_commands
from tests.core.misbehaving import misbehaving
from tests.doors.processes import WorkerProcess, eventually, on_terminal, standfast
from tests.doors.stages import job_of, outage, refuse, told, work

pytestmark = pytest.mark.usefixtures("every_store")

SLOW = """
import asyncio
from pathlib import Path
from standfast import Standfast

sf = Standfast()

@sf.handler("slow")
async def slow(job):
    Path("started").touch()
    await asyncio.Event().wait()
"""


def asked(question):
    """Ask the application itself, for parity."""

    async def run():
        async with Standfast() as sf:
            return await question(sf)

    return asyncio.run(run())


class TestRetry:
    def test_a_scheduled_job_is_due_now(self, cli):
        job = job_of(cli, "mail", "--delay", "1h")
        code, answer = told(cli, "retry", job)
        assert (code, answer["operation_id"], answer["status"]) == (0, job, "queued")
        assert told(cli, "status", job)[1]["view"] == "queued"

    def test_a_letter_is_replayed(self, cli):
        job = job_of(cli, "mail")
        work(mail=refuse)
        said = cli("retry", job)
        assert said.exit_code == 0
        assert said.stdout.startswith(f"{job} queued: It is not done")
        assert told(cli, "status", job)[1]["replays"] == 1

    def test_a_completed_job_answers_with_its_result(self, cli):
        job = job_of(cli, "mail")
        work(mail=lambda _job: "sent")
        code, answer = told(cli, "retry", job)
        assert (code, answer["status"], answer["result"]) == (0, "ok", "sent")

    def test_a_cancelled_job_exits_1(self, cli):
        job = job_of(cli, "mail")
        cli("cancel", job)
        assert cli("retry", job).exit_code == 1

    @pytest.mark.parametrize(
        ("status", "code", "exit_code"),
        [("failed", "denied", 4), ("held", "approval_required", 4), ("failed", "max_attempts", 1), ("held", None, 1)],
    )
    def test_a_refusal_by_policy_exits_4(self, cli, monkeypatch, status, code, exit_code):
        answer = {"operation_id": "x", "status": status, "hint": "ask", "reason_code": code}
        monkeypatch.setattr(job_commands, "look_up", lambda *_: answer)
        assert cli("retry", "x").exit_code == exit_code

    @pytest.mark.parametrize(("refused", "exit_code"), [({"refused": True}, 1), ({}, 0)])
    def test_one_that_ran_before_it_was_asked_exits_1(self, cli, monkeypatch, refused, exit_code):
        answer = {"operation_id": "x", "status": "running", "hint": "wait", **refused}
        monkeypatch.setattr(job_commands, "look_up", lambda *_: answer)
        assert cli("retry", "x").exit_code == exit_code

    def test_waits_for_a_probe_and_exits_2_if_it_never_says_yes(self, cli):
        job = job_of(cli, "mail", "--delay", "1h")
        with misbehaving() as receiver:
            code, answer = told(cli, "retry", job, "--probe", receiver.urls["busy"], "--timeout", "0")
            assert (code, answer["status"], answer["probe"]) == (2, "queued", "HTTP 503")
            assert told(cli, "status", job)[1]["view"] == "scheduled"
            assert cli("retry", job, "--probe", receiver.urls["fine"]).exit_code == 0
        assert told(cli, "status", job)[1]["view"] == "queued"
        assert cli("retry", job, "--probe", "nowhere").exit_code == 2

    def test_the_answer_is_the_applications(self, cli):
        job = job_of(cli, "mail")
        _, answer = told(cli, "retry", job)
        same = asked(lambda sf: sf.retry(job))
        assert answer.keys() == same.keys()
        assert answer["hint"] == same["hint"]


class TestCancel:
    def test_a_waiting_job_is_cancelled(self, cli):
        job = job_of(cli, "mail")
        said = cli("cancel", job)
        assert (said.exit_code, said.stdout) == (0, f"{job} cancelled\n")
        assert told(cli, "status", job)[1]["state"] == "cancelled"

    def test_json_is_the_job(self, cli):
        job = job_of(cli, "mail")
        code, view = told(cli, "cancel", job)
        assert (code, view["id"], view["state"]) == (0, job, "cancelled")

    def test_a_completed_job_stays_so_and_exits_1(self, cli):
        job = job_of(cli, "mail")
        work(mail=lambda _job: None)
        late = cli("cancel", job)
        assert (late.exit_code, late.stdout) == (1, f"{job} is already completed, and stays so\n")

    def test_a_running_job_is_asked_to_stop(self, here):
        (here / "app.py").write_text(SLOW)
        job = standfast("enqueue", "slow").stdout.split()[0].decode()
        with WorkerProcess("app:sf"):
            eventually((here / "started").exists)
            said = standfast("cancel", job)
            assert said.returncode == 0
            assert standfast("wait", job).returncode == 1
        assert json.loads(standfast("status", job, "--json").stdout)["state"] == "cancelled"


class TestExplain:
    def test_says_a_sentence(self, cli):
        job = job_of(cli, "mail", "--delay", "1h")
        said = cli("explain", job)
        assert said.exit_code == 0
        assert said.stdout.startswith("It is scheduled, and due in ")
        code, answer = told(cli, "explain", job)
        assert (code, answer["id"]) == (0, job)
        assert answer["explanation"].startswith("It is scheduled")

    def test_text_from_outside_stays_on_its_line(self, cli):
        job = job_of(cli, "mail")
        work(mail=refuse)
        said = cli("explain", job).stdout
        assert "handler_refused" in said
        assert said.count("\n") == 1
        assert "\x1b" not in said


@pytest.mark.parametrize("command", ["retry", "cancel", "explain"])
def test_an_unknown_job_exits_3(cli, command):
    cli("migrate")
    unknown = cli(command, "nope")
    assert (unknown.exit_code, unknown.stdout) == (3, "")
    assert "no job has the id 'nope'" in unknown.stderr
    store = os.environ.get("STANDFAST_URL", "sqlite:///standfast.db")
    assert f"; the store is {store}; " in unknown.stderr, "it may be in another"


class TestQueue:
    def test_lists_what_each_holds_and_its_rules(self, cli, here):
        (here / "standfast.toml").write_text('[queues.mail]\nattempts = 3\nlease = 30\nbackoff = "fixed"\n')
        job_of(cli, "mail")
        job_of(cli, "sms", "--delay", "1h")
        job_of(cli, "broken")
        work(broken=refuse)
        cli("queue", "pause", "sms")
        rows = {line.split()[0]: line for line in cli("queue", "list").stdout.splitlines()}
        assert rows["QUEUE"].split()[:6] == ["QUEUE", "STATE", "DUE", "RUNNING", "SCHEDULED", "PARKED"]
        assert rows["QUEUE"].split()[6:8] == ["LETTERS", "WORKERS"]
        assert rows["mail"].split()[1:8] == ["active", "1", "0", "0", "0", "0", "0"]
        state, _, counts = rows["sms"].partition(" ago ")
        assert state.split()[1:4] == ["paused", "by", user()]
        assert counts.split()[:6] == ["0", "0", "1", "0", "0", "0"]
        assert rows["broken"].split()[1:8] == ["active", "0", "0", "0", "0", "1", "0"]
        assert rows["mail"].endswith("3 attempts, backoff 10 s, lease 30 s, timeout 15 min")
        assert rows["sms"].endswith("5 attempts, backoff 2 s doubling to 5 min, lease 1 min 30 s, timeout 15 min")

    def test_says_which_rules_are_those_of_a_profile(self, cli, here):
        (here / "standfast.toml").write_text("[queues.mail]\nattempts = 3\n[queues.feedback]\nattempts = 3\n")
        for queue in ("mail", "sms", "feedback", "mesh_keys"):
            job_of(cli, queue)
        work(other=refuse)  # a worker publishes what the file says
        rows = {line.split()[0]: " ".join(line.split()) for line in cli("queue", "list").stdout.splitlines()}
        assert " declared 3 attempts" in rows["mail"]
        assert " default 5 attempts" in rows["sms"]
        assert " profile, changed 3 attempts" in rows["feedback"]
        assert " profile 10 attempts, backoff 5 s doubling to 10 min" in rows["mesh_keys"]
        [mesh] = [each for each in told(cli, "queue", "list")[1]["items"] if each["name"] == "mesh_keys"]
        assert mesh["rules_from"] == "profile"

    def test_prints_all_eleven_profiles_when_asked(self, cli):
        job_of(cli, "mail")
        rows = " ".join(cli("queue", "list", "--profiles").stdout.split())
        assert "knowledge_ingest 4 attempts, backoff 30 s doubling to 15 min" in rows
        assert len(told(cli, "queue", "list", "--profiles")[1]["profiles"]) == 11

    def test_json_has_the_whole_rules(self, cli):
        job_of(cli, "mail")
        code, answer = told(cli, "queue", "list")
        [mail] = answer["items"]
        assert (code, mail["name"], mail["due"], mail["workers"], mail["paused"]) == (0, "mail", 1, 0, False)
        assert (mail["rules"]["attempts"], mail["rules"]["keep_keys"]) == (5, 604800.0)

    def test_live_workers_are_counted_before_the_first_job(self, here):
        (here / "app.py").write_text(SLOW)
        with WorkerProcess("app:sf") as worker:
            worker.says("is ready for")
            [slow] = json.loads(standfast("queue", "list", "--json").stdout)["items"]
        assert (slow["name"], slow["workers"]) == ("slow", 1)

    def test_pause_holds_and_resume_lets_go(self, cli):
        job = job_of(cli, "mail")
        assert cli("queue", "pause", "mail").stdout == "mail is paused\n"
        work(mail=lambda _job: None)
        assert told(cli, "status", job)[1]["state"] == "queued"
        assert "is paused" in cli("explain", job).stdout
        assert told(cli, "queue", "resume", "mail") == (0, {"name": "mail", "paused": False})
        work(mail=lambda _job: None)
        assert told(cli, "status", job)[1]["state"] == "completed"

    @pytest.mark.parametrize("verb", ["pause", "resume"])
    def test_an_unknown_queue_exits_3(self, cli, verb):
        cli("migrate")
        unknown = cli("queue", verb, "nope")
        assert (unknown.exit_code, unknown.stdout) == (3, "")
        assert "no queue is called 'nope'" in unknown.stderr


class TestStats:
    def test_counts_what_is_there_and_what_happened(self, cli):
        job_of(cli, "mail")
        job_of(cli, "broken")
        work(broken=outage)
        lines = [line.split() for line in cli("stats").stdout.splitlines()]
        assert ["pending", "1"] in lines
        assert ["dead", "letters", "1"] in lines
        [broken] = [line for line in lines if line[:1] == ["broken"]]
        assert broken[:7] == ["broken", "active", "0", "0", "0", "0", "1"]
        assert "dead_letter" in broken

    def test_json_is_the_applications(self, cli):
        job_of(cli, "mail")
        code, answer = told(cli, "stats")
        same = asked(lambda sf: sf.stats())
        assert (code, answer.keys(), answer["queues"]) == (0, same.keys(), same["queues"])

    @pytest.mark.usefixtures("here")
    def test_a_terminal_gets_colours(self):
        standfast("enqueue", "mail")
        assert "\x1b[32mactive" in on_terminal("stats")
        assert "\x1b[32mactive" in on_terminal("queue", "list")
