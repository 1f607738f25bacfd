"""A look changes nothing: no command but those that work or serve touches a rule, whatever lies in its directory.

Every command runs against a live worker, from a directory whose settings and policy file say something else of
everything. A command that is missing in `COMMANDS` fails the first test: say there how it is called.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from standfast.cli.main import main
from tests.doors.conftest import Cli
from tests.doors.processes import COMMAND, PATIENCE, eventually, surroundings
from tests.postgres import connect, drop_schema, fresh_schema, in_schema
from tests.warm import Warm

APPLICATION = """
from standfast import Permanent, Standfast

sf = Standfast()
sf.queue("pay", concurrency=1, attempts=2, destinations=["10.0.0.0/8"], max_age="1d", priority=3)


@sf.handler("pay", replay="manual", risk="high")
async def pay(job):
    raise Permanent("the card was refused")
"""
SETTINGS = '[queues.pay]\nlease = 30\n[groups]\nann = ["finance"]\n'
POLICY = "version: v1\ndlq_rules:\n  - match: {queue: pay}\n    action: manual_review\n"
HOSTILE_SETTINGS = """
[queues.pay]
concurrency = 34
attempts = 99
lease = 5
max_age = 60
priority = 9
destinations = ["127.0.0.1"]
[queues.payments]
attempts = 7
[groups]
mallory = ["finance"]
[ingest.hook]
kind = "json"
queue = "pay"
"""
HOSTILE_POLICY = "version: v1\ndlq_rules:\n  - match: {queue: pay}\n    action: auto_replay\n    max_replays: 3\n"
CASES = "cases:\n  - name: one\n    letter: {queue: pay}\n    expect: {action: auto_replay}\n"
JOBS = '{"queue": "pay", "payload": 1}\n'
TABLES = {
    "queue": "name, rules, priority, max_age, max_depth, declared, overlay, paused",
    "handler": "queue, name, replay_mode, risk, timeout, consent",
    "policy": "snapshot, source, text, problem",
    "shared_setting": "name, value",
}
"""Where rules are kept; the last holds the groups of people."""

WORKING = {("worker",), ("serve",), ("mcp",)}
"""The commands that work or serve: they publish, and have tests of their own below."""
LETTER = "<letter>"
"""Stands for the id of a dead letter."""
COMMANDS: dict[tuple[str, ...], Sequence[str]] = {
    ("enqueue",): ("pay", "1", "--delay", "1h"),
    ("http",): ("pay", "GET", "http://127.0.0.1:1/", "--delay", "1h"),
    ("ingest",): ("hook", "-", "--unsigned"),
    ("run",): ("pay/pay", "1", "--timeout", "0.1"),
    ("submit",): ("pay/pay", "1"),
    ("status",): (LETTER,),
    ("wait",): (LETTER, "--timeout", "1"),
    ("retry",): (LETTER,),
    ("cancel",): ("no-such-job",),
    ("explain",): (LETTER,),
    ("jobs",): (),
    ("tail",): ("--after", "0", "--limit", "1"),
    ("queue", "list"): (),
    ("queue", "pause"): ("payments-of-others",),
    ("queue", "resume"): ("pay",),
    ("queue", "try"): ("crm",),
    ("dead", "list"): (),
    ("dead", "show"): (LETTER,),
    ("dead", "replay"): (LETTER,),
    ("dead", "resolve"): (LETTER, "--reason", "seen", "--result", "1"),
    ("dead", "plan"): (),
    ("dead", "redrive"): ("no-such-plan",),
    ("dead", "redrives"): (),
    ("dead", "groups"): (),
    ("dead", "amend"): (LETTER, "2", "--reason", "typo"),
    ("dead", "discard"): ("no-such-letter", "--reason", "old"),
    ("dead", "quarantine"): (LETTER, "--reason", "odd"),
    ("dead", "purge"): ("--reason", "old", "--queue", "nothing-here", "--confirm", "0"),
    ("dead", "export"): ("letters.jsonl",),
    ("dead", "import"): ("letters.jsonl", "--reason", "moved"),
    ("approvals", "list"): (),
    ("approvals", "show"): ("no-such-approval",),
    ("approvals", "approve"): ("no-such-approval",),
    ("approvals", "deny"): ("no-such-approval", "--reason", "no"),
    ("inbox",): ("session",),
    ("consent", "list"): (),
    ("consent", "grant"): ("session", "pay/pay"),
    ("consent", "deny"): ("session", "pay/pay"),
    ("consent", "revoke"): ("session",),
    ("schedule", "list"): (),
    ("schedule", "add"): ("nightly", "pay", "--cron", "0 3 * * *"),
    ("schedule", "pause"): ("nightly",),
    ("schedule", "resume"): ("nightly",),
    ("schedule", "remove"): ("nightly",),
    ("workflow", "show"): ("no-such-workflow",),
    ("workflow", "list"): (),
    ("workflow", "cancel"): ("no-such-workflow",),
    ("policy", "show"): (),
    ("policy", "check"): ("standfast-policy.yaml",),
    ("policy", "test"): ("cases.yaml",),
    ("policy", "drill"): (),
    ("audit", "log"): (),
    ("audit", "verify"): (),
    ("audit", "export"): ("decisions.jsonl",),
    ("stats",): (),
    ("health",): (),
    ("workers",): (),
    ("alerts", "list"): (),
    ("doctor",): (),
    ("migrate",): (),
    ("backup",): ("copy.db",),
    ("restore",): ("copy.db", "--url", "restored.db"),
    ("promote",): ("restored.db", "<target>"),
    ("config",): (),
    ("bench",): ("--help",),  # measures stores of its own
    ("demo",): ("--help",),  # likewise
    ("scan",): ("../home",),
    ("import", "jsonl"): ("jobs.jsonl", "--dry-run"),
    ("import-jsonl",): ("jobs.jsonl", "--dry-run"),
    ("import", "ops"): (".", "--dry-run"),
    ("import", "sqlite"): ("--help",),  # stores what it reads as the others do
    ("import", "redis"): ("--help",),  # likewise
    ("alive",): ("--help",),  # opens no store
    ("token", "create"): ("robot", "--role", "viewer", "--person", "ann"),
    ("token", "list"): (),
    ("token", "revoke"): ("robot",),
}
"""How each command is called, in this order."""


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Give the name of every command there is."""
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from commands(each, (*path, name))
    else:
        yield path


def test_every_command_is_tried():
    assert {*commands(main)} == {*COMMANDS} | WORKING


# --- a store with a live worker


@pytest.fixture(params=["file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the address of a store of the test's own."""
    if request.param == "file":
        yield str(tmp_path / "live.db")
        return
    made = in_schema(request.getfixturevalue("shared_server"), fresh_schema())
    yield made
    drop_schema(made)


@contextmanager
def process(*arguments: str, cwd: Path, url: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command that goes on until it is stopped."""
    environment = surroundings({"STANDFAST_URL": url, "STANDFAST_LOG": "text"})
    made = Warm([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, env=environment, cwd=cwd)
    try:
        yield made
        made.send_signal(signal.SIGTERM)
        made.wait(PATIENCE)
    finally:
        made.kill()
        made.communicate()


def wait_for(words: str, running: subprocess.Popen[str]) -> None:
    """Wait until a process says something."""
    said = []
    assert running.stderr is not None
    for line in running.stderr:
        said.append(line)
        if words in line:
            return
    raise AssertionError(f"never said {words!r} but {said}")


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    if url.startswith("postgresql"):
        with connect(url) as connection:
            return connection.execute(query.encode()).fetchall()
    with closing(sqlite3.connect(f"file:{url}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


def rules(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Read every rule there is, past the product."""
    found = {}
    for table, columns in TABLES.items():
        try:
            found[table] = rows(url, f"SELECT {columns} FROM {table} ORDER BY 1, 2")  # noqa: S608 - constants
        except Exception as error:  # noqa: BLE001 - two drivers' own
            assert table == "shared_setting", error  # noqa: PT017 - it is not there in every version
    return found


@pytest.fixture
def directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Give the application's directory, and go to another one whose files say something else."""
    home, hostile = tmp_path / "home", tmp_path / "hostile"
    for place, files in {
        home: {"application.py": APPLICATION, "standfast.toml": SETTINGS, "standfast-policy.yaml": POLICY},
        hostile: {
            "standfast.toml": HOSTILE_SETTINGS,
            "standfast-policy.yaml": HOSTILE_POLICY,
            "cases.yaml": CASES,
            "jobs.jsonl": JOBS,
        },
    }.items():
        place.mkdir()
        for name, content in files.items():
            (place / name).write_text(content)
    for name in [name for name in os.environ if name.startswith("STANDFAST_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(hostile)
    return home, hostile


@pytest.fixture
def live(directories: tuple[Path, Path], url: str) -> Iterator[str]:
    """Give a store that a worker with the application's code works on."""
    home, _ = directories
    with process("worker", "application:sf", cwd=home, url=url) as worker:
        wait_for("is ready for", worker)
        yield url
        assert worker.poll() is None, "the worker ended"


def rule(url: str, queue: str, name: str) -> Any:
    """Read one rule in force."""
    [(found,)] = rows(url, f"SELECT rules FROM queue WHERE name = '{queue}'")  # noqa: S608 - a constant
    return json.loads(found)[name]


# --- looking and deciding


@pytest.fixture
def hostile(live: str, cli: Cli, directories: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run commands on the live store, from the hostile directory."""
    monkeypatch.chdir(directories[1])
    monkeypatch.setenv("STANDFAST_URL", live)
    return cli


def letter(cli: Cli) -> str:
    """Have a job die; give its id."""
    made = cli("enqueue", "pay", "1", "--json")
    job_id = str(json.loads(made.stdout)["id"])
    eventually(lambda: json.loads(cli("status", job_id, "--json").stdout)["state"] == "dead")
    return job_id


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Iterator[str]:
    made = in_schema(request.getfixturevalue("shared_server"), fresh_schema())
    yield made
    drop_schema(made)


def test_no_command_that_looks_or_decides_changes_a_rule(live, hostile, target):
    places = {LETTER: letter(hostile), "<target>": target}
    before = rules(live)
    assert json.loads(next(row for row in before["queue"] if row[0] == "pay")[1])["concurrency"]["limit"] == 1
    changed = []
    for path, arguments in COMMANDS.items():
        if live.startswith("postgresql") and path in {("backup",), ("restore",), ("promote",)}:
            continue  # a server has its own means, and nothing to be promoted to
        done = hostile(*path, *(places.get(each, each) for each in arguments), stdin=b"{}")
        assert done.exit_code in {0, 1, 3, 4} or path == ("run",), (path, done.stderr)  # 2 is a mistake in the table
        if rules(live) != before:
            changed.append(path)
            before = rules(live)
    assert changed == []


def test_rules_move_with_their_store_and_are_laid_over_there_too(live, hostile, target):
    if live.startswith("postgresql"):
        pytest.skip("what moves is a file")
    assert hostile("backup", "copy.db").exit_code == 0
    assert hostile("restore", "copy.db", "--url", "restored.db").exit_code == 0
    assert hostile("promote", "restored.db", target).exit_code == 0
    assert rules(target)["queue"] == rules(live)["queue"]


# --- working and serving


@pytest.mark.parametrize(
    ("arguments", "ready"),
    [
        (("worker",), "is ready for"),
        (("serve", "--port", "0", "--no-worker"), "serving at"),
        (("mcp", "--no-worker", "--session", "s"), "serving MCP"),
    ],
    ids=["worker", "serve", "mcp"],
)
def test_a_process_without_the_code_publishes_only_the_rules_that_its_file_names(live, tmp_path, arguments, ready):
    other = tmp_path / "other"
    other.mkdir()
    (other / "standfast.toml").write_text("[queues.pay]\nattempts = 9\n")
    before = rules(live)
    with process(*arguments, cwd=other, url=live) as running:
        wait_for(ready, running)
        eventually(lambda: rule(live, "pay", "attempts") == 9)
    after = rules(live)
    [pay] = [json.loads(row[1]) for row in before["queue"] if row[0] == "pay"]
    assert [json.loads(row[1]) for row in after["queue"] if row[0] == "pay"] == [pay | {"attempts": 9}]
    assert {**after, "queue": None} == {**before, "queue": None}


def test_a_rule_that_is_gone_from_the_file_is_the_codes_again(directories, url):
    home, _ = directories
    leases = []
    for text in (SETTINGS, "[queues.pay]\nlease = 45\n", "", None):
        if text is None:
            (home / "standfast.toml").unlink()
        else:
            (home / "standfast.toml").write_text(text)
        with process("worker", "application:sf", cwd=home, url=url) as worker:
            wait_for("is ready for", worker)
            leases.append(rule(url, "pay", "lease"))
    assert leases == [30.0, 45.0, 90.0, 90.0]
    assert rule(url, "pay", "concurrency")["limit"] == 1
