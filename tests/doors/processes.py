"""The command line in processes of its own, as a user, a script and a service manager start it."""

import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Self

import standfast as package
from tests.warm import Warm, run_warm

COMMAND = (sys.executable, "-m", "standfast")
PATIENCE = 30.0
PACKAGES = str(Path(package.__file__).parents[1])
"""Where this package was imported from, for processes that start elsewhere."""


def surroundings(extra: dict[str, str]) -> dict[str, str]:
    """Give a child its environment."""
    return {**os.environ, "PYTHONPATH": PACKAGES, **extra}


def standfast(*arguments: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, its output piped."""
    return run_warm(
        [*COMMAND, *arguments],
        given=stdin,
        capture_output=True,
        check=False,
        timeout=PATIENCE,
        env=surroundings(environment),
    )


def on_terminal(*arguments: str, start: Callable[..., subprocess.Popen[bytes]] = Warm, **environment: str) -> str:
    """Run a command to its end with a terminal for its output and errors; give what it wrote there."""
    master, slave = pty.openpty()
    terminal = {"TERM": "xterm-256color", "COLUMNS": "160", **environment}
    process = start([*COMMAND, *arguments], stdout=slave, stderr=slave, env=surroundings(terminal))
    os.close(slave)
    written = b""
    with suppress(OSError):  # how a terminal says that its last writer is gone
        while part := os.read(master, 65536):
            written += part
    os.close(master)
    process.wait(PATIENCE)
    return written.decode()


def eventually(fact: Callable[[], bool]) -> None:
    """Wait for a fact."""
    give_up = time.monotonic() + PATIENCE
    while not fact():
        assert time.monotonic() < give_up, "it did not come true"
        time.sleep(0.01)


def has_open(pid: int, path: Path) -> bool:
    """Tell whether a process has a file open."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            if descriptor.readlink() == path:
                return True
    return False


class WorkerProcess:
    """`standfast worker` under way; leaving the block kills it if it still runs."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        command = [*COMMAND, "worker", *arguments]
        self.process = Warm(command, stderr=subprocess.PIPE, text=True, env=surroundings(environment))
        self.lines: list[str] = []
        self._arriving: SimpleQueue[str] = SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._arriving.put(line)

    def says(self, words: str) -> str:
        """Wait for a log line with these words."""
        give_up = time.monotonic() + PATIENCE
        while not self.lines or words not in self.lines[-1]:
            try:
                self.lines.append(self._arriving.get(timeout=max(0.0, give_up - time.monotonic())))
            except Empty:
                raise AssertionError(f"never said {words!r} but {self.lines}") from None
        return self.lines[-1]

    def says_again(self, words: str) -> str:
        """Wait for one more such line, as each of several processes writes one."""
        self.lines.append("")
        return self.says(words)

    def signal(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def ends(self) -> int:
        """Wait for its end; give the exit code."""
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()
