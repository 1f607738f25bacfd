"""enqueue, status, wait and jobs."""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from standfast import Permanent, Standfast
from standfast.cli.group import look_up
from standfast.lifecycle import State
from standfast.testing import drain
from standfast.wings.jobs import commands as job_commands
from tests.doors.processes import standfast

pytestmark = pytest.mark.usefixtures("every_store")


def refuse(_job):
    raise Permanent("no such customer \x1b[31m")


def work(handlers):
    """Run what is due with these handlers, by queue."""

    async def run() -> None:
        async with Standfast() as sf:
            for queue, function in handlers.items():
                sf.handler(queue)(function)
            await drain(sf)

    asyncio.run(run())


def job_of(cli, *arguments):
    return json.loads(cli("enqueue", *arguments, "--json").stdout)["id"]


def shown(cli, job):
    return json.loads(cli("status", job, "--json").stdout)


class TestEnqueue:
    def test_prints_the_receipt(self, cli):
        done = cli("enqueue", "mail", '{"to": "ann"}')
        job, outcome, state = done.stdout.split()
        assert (done.exit_code, outcome, state) == (0, "accepted", "queued")
        assert shown(cli, job)["payload"] == {"to": "ann"}

    def test_prints_it_as_json(self, cli):
        receipt = json.loads(cli("enqueue", "mail", "--json").stdout)
        assert receipt == {"id": receipt["id"], "outcome": "accepted", "state": "queued"}
        assert shown(cli, receipt["id"])["payload"] is None

    @pytest.mark.usefixtures("here")
    def test_reads_the_payload_from_stdin(self):
        done = standfast("enqueue", "mail", "-", "--json", stdin='{"to": "Jörg"}'.encode())
        job = json.loads(done.stdout)["id"]
        assert json.loads(standfast("status", job, "--json").stdout)["payload"] == {"to": "Jörg"}

    def test_every_option_arrives(self, cli):
        options = "--handler send --key k1 --priority 7 --delay 2h --attempts 3 --session s1 --risk high"
        job = shown(cli, job_of(cli, "mail", *options.split(), "--label", "team=a=b", "--label", "env="))
        wanted = {"handler": "send", "idempotency_key": "k1", "priority": 7, "max_attempts": 3, "session": "s1"}
        assert {name: job[name] for name in wanted} == wanted
        assert (job["risk"], job["labels"], job["view"]) == ("high", {"team": "a=b", "env": ""}, "scheduled")
        assert datetime.fromisoformat(job["due_at"]) - datetime.fromisoformat(job["created_at"]) == timedelta(hours=2)

    @pytest.mark.parametrize("written", ["2100-01-02T03:04:05Z", "2100-01-02 04:04:05+01:00", "4102542245"])
    def test_moments_are_rfc_3339_or_seconds(self, cli, written):
        job = shown(cli, job_of(cli, "mail", "--at", written, "--expires", written))
        moment = datetime(2100, 1, 2, 3, 4, 5, tzinfo=UTC)
        for name in ("due_at", "expires_at"):
            assert abs(datetime.fromisoformat(job[name]) - moment) < timedelta(seconds=1)

    @pytest.mark.parametrize("option", ["--at", "--expires"])
    def test_a_moment_without_a_zone_exits_2_and_shows_how_to_write_it(self, cli, here, monkeypatch, option):
        monkeypatch.setenv("TZ", "America/New_York")
        time.tzset()
        refused = cli("enqueue", "mail", option, "2100-01-02T03:04:05")
        monkeypatch.undo()
        time.tzset()
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "has no time zone" in refused.stderr
        assert "2100-01-02T03:04:05-05:00" in " ".join(refused.stderr.split())
        assert list(here.iterdir()) == []

    def test_an_expiry_that_is_past_exits_2(self, cli):
        refused = cli("enqueue", "mail", "--expires", "60")
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
        assert "nothing was written; for that many seconds from now write time.time() + 60" in refused.stderr

    def test_the_same_key_and_payload_is_a_duplicate(self, cli):
        first = cli("enqueue", "mail", "[1]", "--key", "k").stdout.split()
        assert cli("enqueue", "mail", "[1]", "--key", "k").stdout.split() == [first[0], "duplicate", "queued"]

    def test_the_same_key_with_another_payload_exits_2(self, cli):
        cli("enqueue", "mail", "[1]", "--key", "k")
        conflict = cli("enqueue", "mail", "[2]", "--key", "k")
        assert conflict.exit_code == 2
        assert "nothing was written" in conflict.stderr

    @pytest.mark.parametrize(
        "bad", ["{", '{"a": 1, "a": 2}', "NaN", "[1e999]", '"\\u0000"', '"\\ud800"', "[" * 70 + "]" * 70]
    )
    def test_a_bad_payload_exits_2_and_writes_nothing(self, cli, bad):
        refused = cli("enqueue", "mail", bad)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "nothing was" in refused.stderr
        assert refused.stderr.count("\n") == 1
        cli("migrate")
        assert json.loads(cli("jobs", "--json").stdout)["items"] == []

    def test_a_bad_payload_from_stdin_exits_2(self, cli):
        assert cli("enqueue", "mail", "-", stdin=b'{"a": "\xff"}').exit_code == 2
        assert cli("enqueue", "mail", "-", stdin=b"").exit_code == 2

    @pytest.mark.parametrize(
        "wrong",
        ["--at noon", "--delay -5", "--delay nan", "--label team", "--risk some", "--attempts 0"],
    )
    def test_bad_options_exit_2(self, cli, wrong):
        assert cli("enqueue", "mail", *wrong.split()).exit_code == 2

    @pytest.mark.parametrize("delay", ["5m", "0"])
    def test_delay_and_at_together_exit_2_and_make_no_store(self, cli, here, delay):
        refused = cli("enqueue", "mail", "--delay", delay, "--at", "2030-01-01T00:00Z")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "--delay and --at both say when to start; give one of them" in refused.stderr
        assert list(here.iterdir()) == []

    def test_an_undeclared_queue_is_not_found_where_queues_are_strict(self, cli, here):
        (here / "standfast.toml").write_text("[store]\nstrict_queues = true\n[queues.mail]\n")
        assert cli("enqueue", "mail").exit_code == 0
        assert cli("enqueue", "mial").exit_code == 3


class TestStatusAndWait:
    def test_a_completed_job_exits_0(self, cli):
        job = job_of(cli, "mail", '{"to": "ann"}')
        work({"mail": lambda job: {"sent": job.payload["to"]}})
        waited = cli("wait", job, "--json")
        assert (waited.exit_code, cli("status", job).exit_code) == (0, 0)
        assert json.loads(waited.stdout)["result"] == {"sent": "ann"}

    def test_a_dead_job_exits_1_and_tells_why(self, cli):
        job = job_of(cli, "mail")
        work({"mail": refuse})
        for command in ("status", "wait"):
            dead = cli(command, job)
            assert dead.exit_code == 1
            assert "handler_refused" in dead.stdout
            assert "The handler gave up on purpose; read its message before replaying." in dead.stdout
        [failed] = shown(cli, job)["history"]
        assert failed["class"] == "permanent"
        assert shown(cli, job)["failure"]["class"] == "permanent"

    @pytest.mark.parametrize(("state", "code"), [(State.HELD, 1), (State.CANCELLED, 1), (State.RUNNING, 0)])
    def test_held_and_cancelled_exit_1(self, cli, monkeypatch, state, code):
        job = job_of(cli, "mail")

        def changed(url, given, question):
            return msgspec.structs.replace(look_up(url, given, question), state=state, view=str(state))

        monkeypatch.setattr(job_commands, "look_up", changed)
        assert cli("status", job).exit_code == code

    def test_a_wait_that_runs_out_of_time_exits_2(self, cli):
        job = job_of(cli, "mail")
        late = cli("wait", job, "--timeout", "0.05")
        assert (late.exit_code, late.stdout) == (2, "")
        assert late.stderr == f"standfast: job {job} is still queued after 0.05 s; wait again, or look with status\n"

    @pytest.mark.parametrize("command", ["status", "wait"])
    def test_an_unknown_job_exits_3(self, cli, command):
        cli("migrate")
        unknown = cli(command, "nope")
        assert (unknown.exit_code, unknown.stdout) == (3, "")
        assert "no job has the id 'nope'" in unknown.stderr

    def test_json_is_the_whole_view_with_rfc_3339_times(self, cli):
        job = shown(cli, job_of(cli, "mail"))
        assert {"id", "state", "view", "payload_sha256", "history", "failure", "triage", "labels"} < job.keys()
        assert datetime.fromisoformat(job["created_at"]).tzinfo == UTC


class TestJobs:
    def test_lists_the_newest_first(self, cli):
        older, newer = job_of(cli, "mail"), job_of(cli, "sms", "--delay", "5m")
        lines = cli("jobs").stdout.splitlines()
        assert [line.split()[:4] for line in lines[1:]] == [
            [newer, "sms", "scheduled", "0/5"],
            [older, "mail", "queued", "0/5"],
        ]
        assert "due in 5 min" in lines[1] or "due in 4 min" in lines[1]

    def test_filters_by_queue_and_state(self, cli):
        mail, sms = job_of(cli, "mail"), job_of(cli, "sms")
        work({"sms": refuse})

        def found(*arguments):
            return [job["id"] for job in json.loads(cli("jobs", "--json", *arguments).stdout)["items"]]

        assert found("--queue", "mail") == [mail]
        assert found("--state", "dead") == [sms]
        assert found("--queue", "mail", "--state", "dead") == []

    def test_pages_cover_every_job_once(self, cli):
        jobs = [job_of(cli, "mail", str(number)) for number in range(5)]
        seen: list[str] = []
        cursor: list[str] = []
        pages = 0
        while True:
            page = json.loads(cli("jobs", "--limit", "2", "--json", *cursor).stdout)
            seen += [job["id"] for job in page["items"]]
            pages += 1
            if page["next_cursor"] is None:
                break
            cursor = ["--cursor", str(page["next_cursor"])]
        assert (seen, pages) == (jobs[::-1], 3)

    def test_says_on_stderr_how_to_go_on(self, cli):
        older, _newer = job_of(cli, "mail"), job_of(cli, "mail")
        said = cli("jobs", "--limit", "1").stderr
        assert said.startswith("there is more: add --cursor ")
        assert older in cli("jobs", "--limit", "1", *said.split()[-2:]).stdout
        assert cli("jobs", "--limit", "2").stderr == ""


def test_the_key_can_be_given_by_the_name_it_has_in_python(cli):
    first = cli("enqueue", "mail", "1", "--idempotency-key", "a")
    again = cli("enqueue", "mail", "1", "--key", "a")
    assert first.exit_code == 0
    assert again.stdout.split()[:2] == [first.stdout.split()[0], "duplicate"]


def published_handler(here):
    (here / "app.py").write_text(
        "import standfast\nsf = standfast.Standfast()\n"
        "@sf.handler('identity_provision', name='create')\ndef create(job): pass\n"
    )


def test_a_mistyped_queue_is_stored_with_a_hint_at_the_declared_one(cli, here, every_store):  # noqa: ARG001
    published_handler(here)
    assert cli("submit", "app:sf", "identity_provision/create", "1").exit_code == 0
    stored = cli("enqueue", "identity_provison", "1")
    assert stored.exit_code == 0
    assert stored.stdout.endswith(" accepted queued\n")
    hint = "no process has declared queue 'identity_provison'; did you mean 'identity_provision'?"
    assert stored.stderr == f"standfast: {hint}\n"
    assert cli("enqueue", "identity_provision", "1").stderr == ""


def test_a_mistyped_handler_of_a_queue_with_handlers_is_refused_with_the_nearest(cli, here, every_store):  # noqa: ARG001
    published_handler(here)
    assert cli("submit", "app:sf", "identity_provision/create", "1").exit_code == 0
    refused = cli("enqueue", "identity_provision", "1", "--handler", "creat")
    assert refused.exit_code == 3
    assert "no process ever published a handler 'creat'; nothing was written: did you mean create?" in refused.stderr
    assert cli("enqueue", "identity_provision", "1", "--handler", "create").exit_code == 0
    assert cli("enqueue", "later", "1", "--handler", "creat").exit_code == 0


def test_a_state_is_chosen_by_the_word_that_the_table_shows(cli):
    cli("enqueue", "mail", "1", "--delay", "1h")
    cli("enqueue", "mail", "2")
    shown = cli("jobs", "--state", "scheduled")
    assert shown.exit_code == 0
    assert shown.stdout.count("scheduled") == 1
    assert shown.stdout.count("mail") == 1
    assert cli("jobs", "--state", "retry_pending", "--json").exit_code == 0
    refused = cli("jobs", "--state", "scheduled", "--view", "parked")
    assert refused.exit_code == 2
    assert "--state scheduled and --view parked exclude each other" in refused.stderr
