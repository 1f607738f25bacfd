"""Children to be killed, frozen and judged, forked from a warm process without threads or an open store.

Starting Python takes a hundred times longer than a fork, and no process with threads or an open store may be forked.
A child reports into files of its own, one line per write, which no kill can tear.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from standfast.concurrency.guarded import call_guarded
from standfast.errors import ConfigurationError

LOOK_EVERY = 0.002
PROGRAM = (sys.executable, "-P", "-c", f"from {__name__} import main; main()")
"""The warm process. `-P` keeps modules of the current directory out, unless the owner's own path has it."""


def report(path: Path, *, synced: bool = False, **line: Any) -> None:
    """Append one line with one write: it is there whole or not at all, whatever happens to this process."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, json.dumps(line).encode() + b"\n")
    if synced:
        os.fsync(descriptor)
    os.close(descriptor)


def reported(path: Path) -> list[dict[str, Any]]:
    """Read the lines reported so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def until(fact: Callable[[], Any], *, within: float = 30.0) -> Any:
    """Wait until a condition is true, and return its value."""
    give_up = time.monotonic() + within
    while not (found := fact()):
        if time.monotonic() >= give_up:
            raise TimeoutError(f"not so within {within} s")
        time.sleep(LOOK_EVERY)
    return found


class Child:
    """A child of the nursery."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery = nursery
        self.pid = pid
        self.status: int | None = None

    def has_ended(self) -> bool:
        """Return whether it has ended; `status` is then its exit code, or minus the signal that killed it."""
        if self.status is None:
            self.status = self._nursery.ask({"poll": self.pid})
        return self.status is not None

    def is_stopped(self) -> bool:
        """Return whether it is frozen."""
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        return stat.rpartition(") ")[2].startswith("T")

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the child has ended."""
        if not self.has_ended():
            os.kill(self.pid, number)

    def wait(self, within: float = 30.0) -> int:
        """Wait for its end; return its status."""
        until(self.has_ended, within=within)
        return -signal.SIGKILL if self.status is None else self.status

    def kill(self) -> None:
        """Kill it and wait for its end."""
        self.send(signal.SIGKILL)
        self.wait()


class Nursery:
    """The owner's side: asks the warm process for children. Several threads may ask."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._asking = threading.Lock()

    def spawn(self, role: Callable[..., Any], *arguments: Any) -> Child:
        """Start a child that calls a function of a module, with arguments that JSON can carry."""
        name = f"{role.__module__}:{role.__qualname__}"
        return Child(self, self.ask({"role": name, "arguments": [_plain(argument) for argument in arguments]}))

    def ask(self, question: dict[str, Any]) -> Any:
        """Ask, and wait for the answer."""
        with self._asking:
            self._tell(question)
            return self._read_line()

    def warm_up(self, modules: tuple[str, ...]) -> None:
        """Load what every child needs before the first one is forked."""
        for module in modules:
            refused = self.ask({"load": module})
            if refused is not None:
                raise ConfigurationError(f"a child process cannot import {module!r}:\n{refused}")

    def _tell(self, question: dict[str, Any]) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()

    def _read_line(self) -> Any:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise ConfigurationError("the process that starts children has ended; its output is above")
        return json.loads(line)


def _plain(argument: Any) -> Any:
    return str(argument) if isinstance(argument, Path) else argument


@contextmanager
def nursery(*modules: str) -> Iterator[Nursery]:
    """Start the warm process and let it load these modules; at the end, kill the remaining children."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    # In its own session: an interrupt is for its owner, which ends it.
    with subprocess.Popen(PROGRAM, env=environment, start_new_session=True, **pipes) as process:  # noqa: S603
        try:
            children = Nursery(process)
            children.warm_up(modules)
            yield children
        finally:
            process.communicate("")


# --- the warm process


def _serve(questions: TextIO, answers: TextIO) -> None:
    children: set[int] = set()
    for line in questions:
        answers.write(json.dumps(_answer(json.loads(line), children)) + "\n")
        answers.flush()
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _answer(question: dict[str, Any], children: set[int]) -> Any:
    if "load" in question:
        return call_guarded(
            lambda: _load(question["load"]), lambda error: "".join(traceback.format_exception(error)[-2:])
        )
    if "poll" in question:
        return _poll(question["poll"], children)
    alone = threading.active_count() == 1
    pid = (_fork if alone else _start)(question["role"], question["arguments"])
    children.add(pid)
    return pid


def _load(module: str) -> None:
    importlib.import_module(module)


def _poll(pid: int, children: set[int]) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        return None
    children.discard(pid)
    return os.waitstatus_to_exitcode(status)


def _fork(role: str, arguments: list[Any]) -> int:
    pid = os.fork()
    if not pid:
        _perform(role, arguments)
    return pid


def _start(role: str, arguments: list[Any]) -> int:
    """Start a new Python: a loaded module has threads, and a fork would leave their locks locked."""
    return os.posix_spawn(sys.executable, [*PROGRAM, role, json.dumps(arguments)], os.environ)


def _perform(role: str, arguments: list[Any]) -> None:
    """Call the role and exit, whatever it raises: nothing of the warm process may continue in its child."""
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    status = 1
    try:
        module, name = role.split(":")
        getattr(importlib.import_module(module), name)(*arguments)
        status = 0
    finally:
        if status:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Talk to the owner through a copy of standard output: loaded modules may print."""
    if len(sys.argv) > 1:
        _perform(sys.argv[1], json.loads(sys.argv[2]))
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        os.register_at_fork(after_in_child=partial(os.close, answers.fileno()))  # or its owner waits for the children
        _serve(sys.stdin, answers)
