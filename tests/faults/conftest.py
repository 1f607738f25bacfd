"""What the fault tests share: `pytest tests/faults --soak` runs them for much longer."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

IN_MEMORY = Path("/dev/shm")  # noqa: S108 - only a parent: each test gets a directory of its own


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the long versions of the fault tests")


@pytest.fixture
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether there is time; the option exists only where this directory was named on the command line."""
    return bool(request.config.getoption("--soak", default=False))


@pytest.fixture
def _quiet() -> Iterator[None]:
    """Keep thousands of expected warnings out of the report.

    By `setLevel`, twice: loggers remember what is enabled, and would be quiet in the tests that follow too.
    """
    log = logging.getLogger("standfast")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Give a directory where a sync costs nothing, to tests that make thousands and do not judge the disk."""
    parent = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=parent, prefix="standfast-faults-") as directory:
        yield Path(directory)
