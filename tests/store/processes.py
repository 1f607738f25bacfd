"""Other processes, started and told what to do; what they do is in `child.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.warm import Warm

CHILD = Path(__file__).with_name("child.py")


class Child:
    """Another process."""

    def __init__(self, verb: str, *arguments: str) -> None:
        self._process = Warm(
            [sys.executable, str(CHILD), verb, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def hear(self) -> list[Any]:
        """Wait for what it says next."""
        assert self._process.stdout is not None
        words: list[Any] = json.loads(self._process.stdout.readline())
        return words

    def go(self) -> None:
        """Let it go."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def leave(self) -> list[list[Any]]:
        """Hang up, and wait for its end; give what it still had to say."""
        if self._process.stdout is None or self._process.stdout.closed:
            return []
        rest, _ = self._process.communicate()
        return [json.loads(line) for line in rest.splitlines()]


class Processes:
    """The processes of one test."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def start(self, verb: str, *arguments: str) -> Child:
        """Start one."""
        child = Child(verb, *arguments)
        self._children.append(child)
        return child

    def ready(self, verb: str, *arguments: str) -> Child:
        """Start one and wait until it is ready."""
        child = self.start(verb, *arguments)
        assert child.hear() == ["ready"]
        return child

    def leave(self) -> None:
        """Let all of them end."""
        for child in self._children:
            child.leave()
