"""http, and which commands make a store that is not there."""

import json

import pytest

from tests.doors.processes import PACKAGES, WorkerProcess, standfast
from tests.doors.stages import told
from tests.receiver import Receiver, Spot

ALLOWED = '[queues.feed]\ndestinations = ["127.0.0.1"]\n'
LOOKING = [
    *(["jobs"], ["status", "x"], ["wait", "x"], ["health"], ["stats"], ["explain", "x"], ["retry", "x"]),
    *(["cancel", "x"], ["dead", "list"], ["dead", "show", "x"], ["dead", "replay", "x"], ["queue", "list"]),
    *(["queue", "pause", "x"], ["queue", "resume", "x"], ["tail"]),
]


@pytest.fixture
def receiver(tmp_path):
    """Start a receiver."""
    receiver = Receiver(tmp_path / "requests.jsonl").start()
    yield receiver
    receiver.stop()


class TestHttp:
    def test_a_worker_sends_what_was_said(self, here, receiver):
        (here / "standfast.toml").write_text(ALLOWED)
        spot = Spot(receiver, "/a")
        options = ["-H", "X-Team: red: blue", "--header", "X-Empty:", "--key", "k1", "--timeout", "5s"]
        done = standfast("http", "feed", "post", spot.url(), '{"a": 1}', *options, "--label", "of=test")
        job, outcome, state = done.stdout.decode().split()
        assert (done.returncode, outcome, state) == (0, "accepted", "queued")
        with WorkerProcess():
            waited = standfast("wait", job, "--json")
        assert waited.returncode == 0
        [request] = spot.requests
        assert (request["method"], json.loads(request["body"])) == ("POST", {"a": 1})
        headers = request["headers"]
        assert (headers["x-team"], headers["x-empty"], headers["idempotency-key"]) == ("red: blue", "", "k1")
        assert json.loads(waited.stdout)["labels"] == {"of": "test"}

    def test_every_option_of_a_job_arrives(self, cli):
        options = "--key k1 --priority 7 --delay 2h --attempts 3 --session s1 --risk high --thread-key t"
        code, receipt = told(cli, "http", "feed", "GET", "https://example.com/", *options.split())
        job = told(cli, "status", receipt["id"])[1]
        wanted = {"handler": "http", "idempotency_key": "k1", "priority": 7, "max_attempts": 3, "session": "s1"}
        assert code == 0
        assert {name: job[name] for name in wanted} == wanted
        assert (job["risk"], job["thread_key"], job["view"]) == ("high", "t", "scheduled")
        assert job["payload"] == {"method": "GET", "url": "https://example.com/"}

    def test_reads_the_body_from_stdin(self, cli):
        stored = cli("http", "feed", "PUT", "https://example.com/", "-", "--json", stdin=b'{"b": 2}')
        job = told(cli, "status", json.loads(stored.stdout)["id"])[1]
        assert job["payload"]["body"] == {"b": 2}

    def test_a_private_address_is_refused_with_the_line_to_add(self, cli, here):
        refused = cli("http", "feed", "POST", "http://127.0.0.1:1/", "{}")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert 'in standfast.toml under [queues.feed]: destinations = ["127.0.0.1"]' in refused.stderr
        assert refused.stderr.count("\n") == 1
        assert list(here.iterdir()) == [], "a refusal makes no store"
        (here / "standfast.toml").write_text(ALLOWED)
        assert cli("http", "feed", "POST", "http://127.0.0.1:1/", "{}").exit_code == 0

    @pytest.mark.parametrize(
        "wrong",
        [
            ["POST", "https://example.com/", "{"],
            ["POST", "ftp://example.com/"],
            ["SING", "https://example.com/"],
            ["POST", "https://example.com/", "-H", "no colon"],
            ["POST", "https://example.com/", "-H", ": x"],
            ["POST", "https://example.com/", "-H", "A: 1", "-H", "a: 2"],
            ["POST", "https://example.com/", "-H", "Idempotency-Key: k"],
            ["POST", "https://example.com/", "-H", "A: \x1b[2J"],
            ["POST", "https://example.com/", "--timeout", "0"],
            ["POST", "https://example.com/", "--delay", "5m", "--at", "2030-01-01T00:00Z"],
        ],
    )
    def test_what_could_not_be_sent_exits_2(self, cli, wrong):
        refused = cli("http", "feed", *wrong)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "\x1b" not in refused.stderr


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
def test_looking_makes_no_store(cli, here, command):
    absent = cli(*command)
    assert (absent.exit_code, absent.stdout) == (3, "")
    assert absent.stderr.startswith("standfast: no store at sqlite:///standfast.db; ")
    assert "your application" in absent.stderr
    assert list(here.iterdir()) == []


def test_a_password_is_not_told_with_a_store_that_is_not_there(cli):
    absent = cli("jobs", "--url", "no:such@file.db")
    assert "no store at no:such@file.db" in absent.stderr


@pytest.mark.parametrize("command", [["enqueue", "mail"], ["http", "mail", "GET", "https://example.com/"]])
def test_the_first_job_makes_the_store(cli, here, command):
    assert cli(*command).exit_code == 0
    assert (here / "standfast.db").exists()


def test_the_version_is_told_also_of_a_package_that_is_not_installed(here):
    """A directory with nothing but the package's files has no metadata to ask."""
    (here / "standfast").symlink_to(f"{PACKAGES}/standfast")
    told = standfast("--version")
    assert told.returncode == 0
    assert told.stdout.startswith(b"standfast, version ")
    assert told.stderr == b""
