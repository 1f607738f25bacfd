"""The lock by which a process of this host is known to be alive: real processes, real deaths."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from standfast.wings.commands.orphans import identify
from standfast.worker import lifeline
from standfast.worker.lifeline import DeathWatch, verdict
from tests.warm import Warm
from tests.worker.processes import environment

NOTICED_WITHIN = 2.0
"""Seconds in which a dead process of this host is noticed."""
HOLD = "from standfast.worker import lifeline; print(lifeline.hold(), flush=True); input()"
FORKS = """
import os
from standfast.worker import lifeline
name = lifeline.hold()
child = os.fork()
if child == 0:
    os.execvp("sleep", ["sleep", "600"]) if {executes} else os.read(0, 1)
print(name, child, flush=True)
input()
"""
CLOSES = """
import os
from standfast.worker import lifeline
name = lifeline.hold()
os.closerange(3, 256)
print(name, flush=True)
input()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the locks of these tests to themselves."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "standfast" / "alive"


@contextmanager
def process(program: str = HOLD) -> Iterator[tuple[Warm, list[str]]]:
    """Start a process that holds its lock and says so; leave nothing behind."""
    child = Warm(
        [sys.executable, "-c", program],
        env=environment(),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    try:
        yield child, child.stdout.readline().split()
    finally:
        child.kill()
        child.communicate()


def test_a_process_is_alive_until_it_is_killed(place):
    with process() as (child, [name]):
        assert verdict(name) == "alive"
        watch = DeathWatch()
        assert not watch.look()
        child.kill()
        child.wait()
        assert verdict(name) == "dead"
        assert watch.look()
        assert not watch.look(), "it died once"
        assert watch.dead == (name,)
    assert (place / name).exists(), "others may still want to know"


def test_a_process_that_ends_in_order_leaves_no_file(place):
    with process() as (child, [name]):
        child.communicate("\n")
        assert child.returncode == 0
        assert not (place / name).exists()
        assert verdict(name) == "unknown"
        assert not DeathWatch().look()


def test_a_frozen_process_is_not_dead():
    with process() as (child, [name]):
        child.send_signal(signal.SIGSTOP)
        assert verdict(name) == "alive"


@pytest.mark.parametrize("executes", [False, True])
def test_a_child_that_a_handler_forked_does_not_keep_a_dead_worker_alive(executes):
    with process(FORKS.format(executes=executes)) as (child, [name, forked]):
        child.kill()
        child.wait()
        os.kill(int(forked), 0)  # it is still there
        until = time.monotonic() + NOTICED_WITHIN
        try:
            while verdict(name) != "dead":  # the forked one may not have come to let go of the lock yet
                assert time.monotonic() < until
                time.sleep(0.001)
        finally:
            os.kill(int(forked), signal.SIGKILL)


def test_a_live_process_whose_code_closed_its_lock_is_not_dead():
    with process(CLOSES) as (child, [name]):
        assert verdict(name) == "alive"
        child.kill()
        child.wait()
        assert verdict(name) == "dead"


def unlocked(place: Path, **differs: Any) -> str:
    """Leave the file of a process that is over, with something about it changed."""
    over = Warm([sys.executable, "-c", ""])
    known = identify(over.pid)
    over.wait()
    place.mkdir(parents=True, exist_ok=True)
    (place / "name").write_bytes(msgspec.json.encode(msgspec.structs.replace(known, **differs)))
    return "name"


@pytest.mark.parametrize(
    ("differs", "said"),
    [
        ({}, "dead"),
        ({"boot": "another"}, "unknown"),
        ({"boot": "another", "host": "another"}, "unknown"),
        ({"boot": "unknown"}, "unknown"),
        ({"space": "pid:[1]"}, "dead"),
    ],
)
def test_only_what_this_kernel_knows_is_judged(place, differs, said):
    """Another container of this machine is; another machine that shares the directory is not."""
    assert verdict(unlocked(place, **differs)) == said


def test_a_number_that_is_used_again_is_another_process(place):
    """The number alone would make the dead worker look alive, and the lock alone a live one dead."""
    assert verdict(unlocked(place, pid=os.getpid())) == "dead"


def test_what_is_no_lock_says_nothing(place):
    place.mkdir(parents=True)
    (place / "strange").write_text("no identity")
    assert verdict("strange") == "unknown"
    assert verdict("absent") == "unknown"


def test_a_file_is_locked_before_it_has_its_name(place, monkeypatch):
    """Whoever looks at the wrong moment would take a process that just starts for dead."""
    renamed: list[bool] = []
    rename = Path.rename

    def is_locked(path: Path) -> bool:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def spied(self: Path, target: Path) -> Path:
        renamed.append(is_locked(self))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", spied)
    ours = lifeline.Lifeline()
    name = ours.hold()
    assert renamed == [True]
    assert [path.name for path in place.iterdir()] == [name]
    assert ours.hold() == name
    ours.forget()


def test_where_no_lock_can_be_held_there_is_no_name(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(lifeline, "_places", lambda: [tmp_path / "file" / "below"])
    assert lifeline.Lifeline().hold() is None


def test_a_directory_of_another_user_is_not_trusted(monkeypatch, place):
    name = unlocked(place)
    monkeypatch.setattr(os, "getuid", lambda: place.stat().st_uid + 1)
    assert verdict(name) == "unknown"


def test_the_file_of_a_process_that_is_long_dead_is_removed(monkeypatch, place):
    name = unlocked(place)
    watch = DeathWatch()
    watch.look()
    assert (place / name).exists()
    monkeypatch.setattr(lifeline, "KEPT_FOR", -1.0)
    watch.look()
    assert not (place / name).exists()
