"""What reaches the terminal: colours for a person, plain text for a pipe, and never an escape from outside."""

import asyncio
import json
import logging
import re
import subprocess
from datetime import UTC, datetime, timedelta

import click
import msgspec
import pytest

from standfast import Permanent, Standfast
from standfast.cli.logs import JsonLines, TextLines
from standfast.cli.main import main
from standfast.cli.sheets import sheet
from standfast.cli.words import ago
from standfast.testing import drain, memory
from standfast.views import Attempt
from standfast.wings.records.figures import span
from tests.doors.processes import PACKAGES, WorkerProcess, eventually, on_terminal, standfast
from tests.waiting import job_of

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202egnp.exe\u2066\x9b31m\x7f\r"
SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")
COLOUR = re.compile(r"\x1b\[(?:\d+;)*3\dm")
ACTING = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028]")


@pytest.fixture
def dead(here):  # noqa: ARG001 - the store is there
    """Put a job into the store whose payload is hostile, and that died with a message like it."""

    def refuse(_job):
        raise Permanent(f"no {HOSTILE}")

    async def run():
        async with Standfast() as sf:
            sf.handler("mail")(refuse)
            receipt = await sf.enqueue("mail", {HOSTILE: HOSTILE})
            await drain(sf)
            return receipt.id

    return asyncio.run(run())


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize("command", ["status", "jobs"])
def test_text_from_outside_is_escaped_when_piped(dead, command, form):
    told = standfast(command, *([dead] if command == "status" else []), *form).stdout.decode()
    assert ACTING.findall(told) == []
    assert dead in told


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_text_from_outside_is_escaped_on_a_terminal(dead, form):
    told = on_terminal("status", dead, *form)
    assert ACTING.findall(SEQUENCE.sub("", told.replace("\r\n", "\n"))) == []
    assert r"\u001b[2J" in told


def test_escaped_json_still_says_the_same(dead):
    assert json.loads(standfast("status", dead, "--json").stdout)["payload"] == {HOSTILE: HOSTILE}


@pytest.mark.usefixtures("dead")
def test_a_terminal_gets_colours_by_state():
    told = on_terminal("jobs")
    assert "\x1b[1;31mdead" in told
    assert "handler_refused" in told


def test_a_dead_job_shows_reason_advice_and_history(dead):
    told = SEQUENCE.sub("", on_terminal("status", dead))
    assert "The handler gave up on purpose; read its message before replaying." in told
    history = told.partition("History")[2].split("\r\n")
    assert history[1].split() == ["attempt", "when", "class", "landed", "reason", "repeat", "error"]
    assert history[2].split()[0] == "1"
    assert "permanent" in history[2]
    assert "Permanent: no" in history[2]


def test_no_color_is_respected(dead):
    assert COLOUR.search(on_terminal("jobs"))
    told = on_terminal("jobs", NO_COLOR="1")
    assert dead in told
    assert not COLOUR.search(told)


@pytest.mark.usefixtures("dead")
def test_a_pipe_gets_plain_aligned_text():
    told = standfast("jobs", FORCE_COLOR="1").stdout.decode().splitlines()
    assert "\x1b" not in "".join(told)
    assert told[0].index("STATE") == told[1].index("dead")
    assert told[0].index("NOTE") == told[1].index("handler_refused")


def test_without_rich_a_terminal_gets_plain_text(dead, here):
    (here / "sitecustomize.py").write_text("import sys\nsys.modules['rich'] = None\n")
    told = on_terminal("status", dead, PYTHONPATH=f"{here}:{PACKAGES}", start=subprocess.Popen)
    assert "\x1b" not in told
    assert "handler_refused" in told


def test_json_is_laid_out_for_a_person_and_one_line_for_a_program(dead):
    assert on_terminal("status", dead, "--json").count("\n") > 40
    assert standfast("status", dead, "--json").stdout.count(b"\n") == 1


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "now"),
        (0.9, "now"),
        (5, "5 s ago"),
        (119, "1 min 59 s ago"),
        (100, "1 min 40 s ago"),
        (180, "3 min ago"),
        (5400, "1 h 30 min ago"),
        (7199.6, "2 h ago"),
        (86400 * 3, "3 d ago"),
        (-300, "in 5 min"),
        (-299.5, "in 5 min"),
        (-86400 * 30, "in 30 d"),
    ],
)
def test_ages_are_said_in_words(seconds, said):
    now = datetime(2026, 11, 15, tzinfo=UTC)
    assert ago(now - timedelta(seconds=seconds), now) == said


def test_a_short_span_is_said_in_seconds():
    assert [span(0), span(0.29), span(0.96)] == ["0 s", "290 ms", "960 ms"]


def record(message):
    error = ValueError(HOSTILE)
    return logging.LogRecord("standfast.x", logging.ERROR, __file__, 1, message, (), (ValueError, error, None))


def test_log_lines_never_act_on_the_terminal():
    for lines in (TextLines(), JsonLines()):
        assert ACTING.findall(lines.format(record(f"job {HOSTILE}\nERROR forged"))) == []
    assert TextLines().format(record("one\ntwo")).split("\n")[0].endswith(r"standfast.x: one\ntwo")
    parsed = json.loads(JsonLines().format(record(HOSTILE)))
    assert (parsed["message"], parsed["level"]) == (HOSTILE, "error")
    assert "ValueError" in parsed["traceback"]


def test_log_lines_hide_secrets_but_for_the_heads_of_the_audit_chain():
    head, raised = "ab" * 32, (ValueError, ValueError("postgres://ann:hunter2@db/x refused"), None)
    said = logging.LogRecord("standfast.x", logging.ERROR, __file__, 1, "token=%s", ("hunter2",), raised)
    noted = logging.LogRecord("standfast.audit", logging.INFO, __file__, 1, "audit head 7 %s", (head,), None)
    for lines in (TextLines(), JsonLines()):
        shown = lines.format(said)
        assert ("hunter2" in shown, shown.count("***")) == (False, 2)
        assert f"audit head 7 {head}" in lines.format(noted)


def commands_of(group, path=""):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands_of(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", {option for it in command.params for option in it.opts}


def test_every_command_takes_url_and_json():
    found = dict(commands_of(main))
    assert "dead replay" in found
    without = {name for name, options in found.items() if not {"--url", "--json"} <= options}
    assert without == {"alive"}, "a probe opens no store, and its exit code is its answer"


@pytest.mark.parametrize(("delay", "said"), [(None, "possible duplicate"), (0.29, "after 290 ms, possible duplicate")])
async def test_what_follows_an_attempt_is_said_without_gaps(delay, said):
    async with memory() as sf:
        job = await job_of(sf, (await sf.enqueue("mail")).id)
    line = Attempt(attempt=1, at=job.created_at, delay=delay, possible_duplicate=True)
    *_, history = sheet(msgspec.structs.replace(job, history=[line]), job.created_at)
    assert said in history.rows[0]


# --- how far a job is

SLOW = """
import asyncio
from pathlib import Path
from standfast import Standfast

sf = Standfast()

@sf.handler("slow")
async def slow(job):
    job.progress(0.4, "2 of 5 files")
    while not Path("go_on").exists():
        await asyncio.sleep(0.05)
    job.progress(0.6, "3 of 5 files")
"""


def test_status_and_wait_show_how_far_a_job_is(here):
    (here / "app.py").write_text(SLOW)
    job = json.loads(standfast("enqueue", "slow", "--json").stdout)["id"]
    with WorkerProcess("app:sf"):
        eventually(lambda: "40% 2 of 5 files" in standfast("status", job).stdout.decode())
        late = on_terminal("wait", job, "--timeout", "3")
        assert "40%" in late
        assert "2 of 5 files" in late
        assert "40%" not in standfast("wait", job, "--timeout", "1").stderr.decode(), "nothing where no person looks"
        (here / "go_on").touch()
        standfast("wait", job)
    shown = standfast("status", job)
    assert "progress" not in shown.stdout.decode(), "what is done is whole"
    assert json.loads(standfast("status", job, "--json").stdout)["progress"]["note"] in {"2 of 5 files", "3 of 5 files"}
