"""Exit codes and the one line an error is told in."""

import signal
import subprocess

import click
import pytest
from click.testing import CliRunner

from standfast import errors
from standfast.cli.group import CommandGroup
from tests.doors.processes import COMMAND, PATIENCE, eventually, has_open, standfast, surroundings
from tests.warm import Warm


def fails_with(error):
    @click.command()
    def fail() -> None:
        raise error

    return CliRunner().invoke(CommandGroup(commands=[fail]), ["fail"])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.PayloadRejected("bad payload"), 2),
        (errors.ConfigurationError("bad setting"), 2),
        (errors.WrongAddress("no such database"), 1),
        (errors.IdempotencyConflict("taken", job_id="x"), 2),
        (errors.UnknownJob("no such job"), 3),
        (errors.UnknownQueue("no such queue"), 3),
        (errors.PolicyDenied("no"), 4),
        (errors.ApprovalRequired("ask first"), 4),
        (errors.StoreUnavailable("locked", definite=True), 1),
        (errors.Backpressure("full"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_error_has_its_exit_code(error, code):
    assert fails_with(error).exit_code == code


def test_an_error_is_one_line_on_stderr_with_what_is_safe_and_what_comes_next():
    refused = fails_with(errors.PayloadRejected("it names a key twice"))
    assert refused.stdout == ""
    assert refused.stderr == "standfast: it names a key twice; nothing was changed\n"
    away = fails_with(errors.StoreUnavailable("cannot open q.db\n; nothing was written", definite=True))
    assert away.stderr == (
        "standfast: cannot open q.db\\n; nothing was written; see what is wrong with: standfast doctor\n"
    )


def test_an_error_never_acts_on_the_terminal():
    assert fails_with(errors.UnknownJob("\x1b[2J\u202e")).stderr.startswith("standfast: \\u001b[2J\\u202e; ")


def test_a_store_that_cannot_be_opened_is_no_traceback(here):
    (here / "q.db").mkdir()
    refused = standfast("jobs", "--url", "q.db")
    assert refused.returncode == 1
    assert refused.stderr.startswith(b"standfast: cannot open ")
    assert refused.stderr.count(b"\n") == 1
    assert refused.stdout == b""


def test_a_hint_leads_to_the_store_that_the_command_named(cli, here):
    (here / "junk file.db").write_text("no database")
    for command in (["jobs", "--url", "junk file.db"], ["--url", "junk file.db", "jobs"]):
        assert cli(*command).stderr.endswith("see what is wrong with: standfast doctor --url 'junk file.db'\n")
    assert cli("enqueue", "mail", "--url", "q.db").exit_code == 0
    assert cli("status", "nosuchjob", "--url", "q.db").stderr.endswith(": standfast jobs --url q.db\n")
    secret = cli("jobs", "--url", "postgresql://ann:hunter2@127.0.0.1:1/none")
    assert "standfast doctor --url 'postgresql://ann:***@" in secret.stderr
    assert "hunter2" not in secret.stderr
    (here / "app.py").write_text("import standfast\nsf = standfast.Standfast('q.db')\n")
    assert cli("status", "app:sf", "nosuchjob").stderr.endswith(": standfast jobs app:sf\n")


@pytest.mark.parametrize(
    "wrong",
    [
        ["nonsense"],
        ["jobs", "--state", "lost"],
        ["enqueue"],
        ["wait", "x", "--timeout", "soon"],
        ["wait", "x", "--timeout", "nan"],
    ],
)
def test_bad_usage_exits_2(cli, wrong):
    assert cli(*wrong).exit_code == 2


def test_an_interrupted_wait_exits_130(here):
    job = standfast("enqueue", "nobody").stdout.split()[0].decode()
    with Warm([*COMMAND, "wait", job], stderr=subprocess.PIPE, env=surroundings({})) as waiting:
        eventually(lambda: has_open(waiting.pid, here / "standfast.db"))
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(PATIENCE) == 130
        assert waiting.stderr is not None
        assert not waiting.stderr.read().startswith(b"Traceback")


@pytest.mark.parametrize(
    ("typed", "instead"),
    [
        (["beat"], "standfast schedule list"),
        (["inspect", "active"], "standfast workers"),
        (["-A", "shop", "worker"], "standfast worker shop:app"),
        (["worker", "-A", "shop"], "standfast worker shop:app"),
        (["worker", "shop:app", "-Q", "mail"], "--queues"),
        (["worker", "shop:app", "-c", "4"], "--total"),
        (["worker", "shop:app", "-B"], "a worker enqueues what is due"),
        (["worker", "shop:app", "--loglevel", "info"], "STANDFAST_LOG_LEVEL"),
        (["worker", "shop:app", "--max-tasks-per-child", "9"], "--recycle-after"),
        (["flower"], "standfast serve"),
        (["purge"], "standfast cancel"),
    ],
)
def test_what_celery_users_type_is_refused_with_what_to_type_instead(cli, typed, instead):
    said = cli(*typed)
    [line] = said.stderr.splitlines()
    assert said.exit_code == 2
    assert instead in line


def test_an_option_of_celerys_worker_is_no_hint_for_another_command(cli):
    assert cli("jobs", "-n", "5").stderr == "standfast: No such option '-n'. See: standfast jobs --help\n"


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (["scan", "--bogus"], "No such option '--bogus'. See: standfast scan --help"),
        (
            ["worker", "--total", "x"],
            "Invalid value for '--total': 'x' is not a valid integer range. See: standfast worker --help",
        ),
        (["dead", "lst"], "No such command 'lst'. Did you mean 'list'? See: standfast dead --help"),
        (["dead", "shop:app"], "Name the application after the command: standfast dead list shop:app"),
        (["queue", "shop:app", "--json"], "Name the application after the command: standfast queue list shop:app"),
        (["enqueue"], "Missing argument 'QUEUE'. See: standfast enqueue --help"),
        (["status", "one", "two"], "Got unexpected extra argument (two). See: standfast status --help"),
    ],
)
def test_a_command_line_that_must_be_written_differently_is_one_line(cli, typed, line):
    said = cli(*typed)
    assert (said.exit_code, said.stderr.splitlines()) == (2, [f"standfast: {line}"])


@pytest.mark.parametrize("typed", ["shopp:sf", "shop.py:sf", "./shop:sf"])
def test_a_module_that_is_not_there_brings_the_nearest_name(cli, here, typed):
    (here / "shop.py").write_text("from standfast import Standfast\nsf = Standfast()\n")
    said = cli("worker", typed)
    assert said.exit_code == 2
    assert "; did you mean shop?" in said.stderr


@pytest.mark.parametrize("typed", ["fs", "Standfast"])
def test_an_attribute_that_is_no_application_brings_the_one_that_is(cli, here, typed):
    (here / "nearby.py").write_text("from standfast import Standfast\nsf = Standfast()\n")
    said = cli("worker", f"nearby:{typed}")
    assert said.exit_code == 2
    assert (
        "name the Standfast object in it: nearby:sf;" in said.stderr
        or "name the Standfast object: nearby:sf;" in said.stderr
    )
