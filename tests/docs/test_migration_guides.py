"""Every migration guide has a whole program before and after; the one after runs, and prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.doors.processes import PACKAGES, WorkerProcess
from tests.warm import run_warm

GUIDES = sorted((Path(__file__).parents[2] / "docs" / "migrating").glob("*.md"))
WHOLE = {"celery", "rq", "huey", "procrastinate", "create-task"}
SEEDS = {"sqlite-event-table", "operation-records", "retry-sweep", "event-dispatch", "redis-letters"}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# (before|after): (\w+)\.py\n")


class Program(NamedTuple):
    """A program of a page: its module's name, its text, and the console that shows it, if it is the one after."""

    page: str
    when: str
    name: str
    text: str
    console: str = ""


def programs() -> Iterator[Program]:
    for guide in GUIDES:
        blocks = BLOCK.findall(guide.read_text(encoding="utf-8"))
        for number, (language, text) in enumerate(blocks):
            named = NAMED.match(text) if language == "python" else None
            if named is None:
                continue
            console = blocks[number + 1][1] if named[1] == "after" else ""
            yield Program(guide.stem, named[1], named[2], text, console)


PROGRAMS = list(programs())
AFTER = [each for each in PROGRAMS if each.when == "after"]


def test_every_guide_has_both_programs_and_its_parts():
    assert {guide.stem for guide in GUIDES} == WHOLE | SEEDS
    for guide in GUIDES:
        own = {each.when for each in PROGRAMS if each.page == guide.stem}
        assert own == {"before", "after"}, guide.name
        titles = re.findall(r"^## (.*)$", guide.read_text(encoding="utf-8"), re.MULTILINE)
        assert {"What is what", "Before and after", "What to check"} <= set(titles), guide.name


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: f"{each.page}-{each.when}-{each.name}")
def test_every_program_is_python(program: Program):
    compile(program.text, f"{program.name}.py", "exec")


@pytest.mark.parametrize("program", AFTER, ids=lambda each: f"{each.page}-{each.name}")
def test_the_program_after_prints_what_the_page_says(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("STANDFAST_URL", "STANDFAST_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{program.name}.py").write_text(program.text, encoding="utf-8")
    commands = re.findall(r"^\$ (.*)$", program.console, re.MULTILINE)
    expected = "".join(line for line in program.console.splitlines(keepends=True) if not line.startswith("$ "))
    assert commands[-1] == f"python {program.name}.py"
    environment = {**os.environ, "PYTHONPATH": f"{PACKAGES}{os.pathsep}{tmp_path}"}
    with worker(commands[0], environment["PYTHONPATH"]):
        run = run_warm(
            [sys.executable, f"{program.name}.py"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=40,
            check=False,
        )
    assert (run.stdout.decode(), run.returncode) == (expected, 0), run.stderr.decode()


def worker(command: str, path: str) -> WorkerProcess | nullcontext[None]:
    """Start the worker that the page starts beside the program, if it does."""
    found = re.fullmatch(r"standfast worker (\S+) &", command)
    return nullcontext() if found is None else WorkerProcess(found[1], PYTHONPATH=path)
