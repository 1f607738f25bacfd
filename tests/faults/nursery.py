"""Children to be killed, frozen and judged, forked from a warm process that has neither threads nor an open store.

Starting Python takes a hundred times longer than a fork, and no process with threads or an open store may be forked.
What a child reports goes into files of its own, one line to one write, which no kill can tear.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def report(path: Path, **line: Any) -> None:
    """Append one line with one write: it is there whole or not at all, whatever happens to this process."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, json.dumps(line).encode() + b"\n")
    os.close(descriptor)


def reported(path: Path) -> list[dict[str, Any]]:
    """Read what was reported so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def until(fact: Callable[[], Any], *, within: float = 30.0) -> Any:
    """Wait for a fact, and give it."""
    give_up = time.monotonic() + within
    while not (found := fact()):
        assert time.monotonic() < give_up, f"not so within {within} s"
        time.sleep(0.002)
    return found


class Child:
    """A child of the nursery."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery = nursery
        self.pid = pid
        self.status: int | None = None

    def ended(self) -> bool:
        """Tell whether it has ended; `status` then says how: an exit code, or minus the signal that killed it."""
        if self.status is None:
            self.status = self._nursery.ask({"poll": self.pid})
        return self.status is not None

    def stopped(self) -> bool:
        """Tell whether it is frozen."""
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        return stat.rpartition(") ")[2].startswith("T")

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if not self.ended():
            os.kill(self.pid, number)

    def wait(self, within: float = 30.0) -> int:
        """Wait for its end; give its status."""
        until(self.ended, within=within)
        assert self.status is not None
        return self.status

    def kill(self) -> None:
        """Kill it and wait for its end."""
        self.send(signal.SIGKILL)
        self.wait()


class Nursery:
    """The test's side: asks the warm process for children."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def spawn(self, role: Callable[..., Any], *arguments: Any) -> Child:
        """Have a child call a function of a module, with arguments that JSON can carry."""
        name = f"{role.__module__}:{role.__qualname__}"
        return Child(self, self.ask({"role": name, "arguments": [_plain(argument) for argument in arguments]}))

    def ask(self, question: dict[str, Any]) -> Any:
        """Ask, and wait for the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def _plain(argument: Any) -> Any:
    return str(argument) if isinstance(argument, Path) else argument


@contextmanager
def nursery() -> Iterator[Nursery]:
    """Start the warm process; at the end, kill the children that are left."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    command = [sys.executable, "-m", "tests.faults.nursery"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdin=pipe, stdout=pipe) as process:
        try:
            yield Nursery(process)
        finally:
            process.communicate("")


# --- the warm process


def _serve() -> None:
    children: set[int] = set()
    importlib.import_module("tests.faults.roles")  # what every child needs is loaded before it is born
    for line in sys.stdin:
        question = json.loads(line)
        if "poll" in question:
            answer = _poll(question["poll"], children)
        else:
            answer = _fork(question["role"], question["arguments"])
            children.add(answer)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _poll(pid: int, children: set[int]) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        return None
    children.discard(pid)
    return os.waitstatus_to_exitcode(status)


def _fork(role: str, arguments: list[Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)
    try:
        module, name = role.split(":")
        getattr(importlib.import_module(module), name)(*arguments)
    except BaseException:  # noqa: BLE001 - a child of a fork must end here, whatever it met
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    _serve()
