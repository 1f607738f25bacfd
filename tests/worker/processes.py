"""Start, signal and kill worker processes, and read the log they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.warm import Warm

ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("child.py")


def environment() -> dict[str, str]:
    """Let a child import what this process imports."""
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


class Line(NamedTuple):
    """One line of the log."""

    what: str
    name: str
    attempt: int
    pid: int


class Log:
    """What handlers wrote, in a file of the test's own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, what: str = "start", name: str | None = None) -> list[Line]:
        """Give the lines of this kind, for one job or all."""
        if not self.path.exists():
            return []
        cut = [line.split() for line in self.path.read_text().splitlines()]
        found = [Line(each[0], each[1], int(each[2]), int(each[3])) for each in cut]
        return [line for line in found if line.what == what and name in {None, line.name}]


class Child(Warm):
    """A worker process; `kill` is a SIGKILL, as for any Popen."""

    def __init__(self, path: str, log: Log, **settings: Any) -> None:
        given = msgspec.json.encode(settings).decode()
        super().__init__(
            [sys.executable, str(CHILD), path, str(log.path), given],
            env=environment(),
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> None:
        """Make sure it is gone and its pipe closed."""
        if self.poll() is None:
            self.kill()
        self.communicate(timeout=10)


@contextmanager
def children(path: str, log: Log, number: int = 1, **settings: Any) -> Iterator[list[Child]]:
    """Run some worker processes, and leave none behind."""
    started = [Child(path, log, **settings) for _ in range(number)]
    try:
        yield started
    finally:
        for child in started:
            child.end()


def terminate(child: Child) -> None:
    """Ask it to drain."""
    child.send_signal(signal.SIGTERM)
