"""What a plain job visits on SQLite: functions, files and statements, counted through the public interface.

To lower a bound, write what was measured into LIMITS. When nothing in `wings/` may be visited, set WINGS_VISITED to 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import standfast

WALK = Path(__file__).with_name("walk.py")
WINGS = Path(standfast.__file__).parent / "wings"


class Limit(NamedTuple):
    """How many there may be in the end, and how many there may be now."""

    goal: int
    bound: int


LIMITS = {
    ("enqueue", "functions"): Limit(goal=45, bound=45),
    ("enqueue", "files"): Limit(goal=14, bound=14),
    ("enqueue", "statements"): Limit(goal=6, bound=6),
    ("run", "functions"): Limit(goal=90, bound=90),
    ("run", "files"): Limit(goal=24, bound=24),
    ("run", "statements"): Limit(goal=15, bound=15),
}

WINGS_VISITED: int | None = 0
"""How many functions under `wings/` a plain job may visit; None while it may visit any. The goal is 0."""

Visited = dict[str, dict[str, list[str]]]


@pytest.fixture(scope="session")
def visited(tmp_path_factory: pytest.TempPathFactory) -> Visited:
    """Walk in a process of its own, and give what each way visited."""
    command = [sys.executable, str(WALK), str(tmp_path_factory.mktemp("walk"))]
    walked = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert walked.returncode == 0, walked.stderr
    found: dict[str, dict[str, Any]] = json.loads(walked.stdout)
    for way in found.values():
        way["files"] = sorted({function.split()[0] for function in way["functions"]})
    return found


@pytest.mark.parametrize(("way", "what"), LIMITS)
def test_a_plain_job_visits_no_more_than_it_may(visited: Visited, way: str, what: str):
    seen = visited[way][what]
    assert seen, f"nothing was counted: {way} {what}"
    listing = "\n  ".join([f"{way}: {len(seen)} {what}, at most {LIMITS[way, what].bound}", *seen])
    assert len(seen) <= LIMITS[way, what].bound, listing


@pytest.mark.skipif(not WINGS.is_dir(), reason="there are no wings yet")
@pytest.mark.parametrize("way", ["enqueue", "run"])
def test_a_plain_job_visits_no_wing(visited: Visited, way: str):
    seen = [function for function in visited[way]["functions"] if function.startswith("wings/")]
    print(f"{way}: {len(seen)} functions of wings", *seen, sep="\n  ")  # noqa: T201 - shown by `pytest -s`
    if WINGS_VISITED is not None:
        assert len(seen) <= WINGS_VISITED, "\n  ".join(["a plain job visits wings:", *seen])
