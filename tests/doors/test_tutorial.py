"""The tutorial, executed as it stands: each file is written, each command is run, each output is compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/tutorial.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\S+\.py)(, at the end)?\n")
END = "the-step-has-ended"
INSTALLS = "pip install"
"""The one step that the project's own environment stands for."""


class Shell:
    """One shell for all steps, as a reader has: its variables and background jobs stay."""

    def __init__(self, place: Path) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("STANDFAST", "PYTEST"))}
        self._process = subprocess.Popen(
            ["bash", "--norc", "-m"],  # noqa: S607 - the reader's shell
            cwd=place,
            env={**clean, "PATH": path, "COLUMNS": "200"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str) -> tuple[int, str]:
        """Run a command; give its exit code and what it printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\necho {END} $?\n")
        self._process.stdin.flush()
        printed: list[str] = []
        for line in self._process.stdout:
            if line.startswith(END):
                return int(line.split()[1]), "".join(printed)
            printed.append(line)
        raise AssertionError(f"the shell ended at {command}")

    def close(self) -> None:
        """End the shell, and whatever it still runs in the background."""
        self.run("kill -9 $(jobs -p) 2>/dev/null; true")
        self._process.communicate("exit\n", timeout=10)


def commands(block: str) -> list[tuple[str, str]]:
    """Give each command of a console block with the output that stands below it."""
    steps = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (step.partition("\n") for step in steps)]


def fits(expected: str, printed: str) -> bool:
    """Compare an output with the page's, where `…` stands for anything."""
    pattern = ".*".join(map(re.escape, re.sub(r" +", " ", expected.strip()).split("…")))
    return re.fullmatch(pattern, re.sub(r" +", " ", printed.strip()), re.DOTALL) is not None


def write(place: Path, block: str) -> None:
    """Write a file of the page, or what it adds to one."""
    named = FILE.match(block)
    assert named is not None, f"the page does not say which file this is:\n{block}"
    with (place / named[1]).open("a" if named[2] else "w") as file:
        file.write("\n" + block)


def try_out(shell: Shell, block: str) -> None:
    for command, expected in commands(block):
        if not command.startswith(INSTALLS):
            code, printed = shell.run(command)
            told = f"{command} ended with {code} and printed:\n{printed}\nthe page says:\n{expected}"
            # A command that shows a dead job exits with 1; where the page shows no output, only success will do.
            assert fits(expected, printed) if expected else code == 0 or command.startswith("wait "), told


@pytest.mark.timeout(120)
def test_every_step_of_the_tutorial_does_what_the_page_says(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    try:
        for kind, block in BLOCK.findall(PAGE.read_text()):
            write(tmp_path, block) if kind == "python" else try_out(shell, block)
    finally:
        shell.close()
