"""`SECURITY.md` names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(?:\w+::)?(\w+)`")


def test_every_test_that_the_threat_table_names_is_there() -> None:
    named = NAMED.findall((ROOT / "SECURITY.md").read_text())
    assert named
    assert [f"{file}::{test}" for file, test in named if not _is_there(file, test)] == []


def test_every_threat_names_a_test() -> None:
    page = (ROOT / "SECURITY.md").read_text().partition("## Threats")[2]
    rows = [line for line in page.splitlines() if line.startswith("|") and not line.startswith(("| attack", "|---"))]
    assert rows
    assert [row for row in rows if not NAMED.search(row)] == []


def _is_there(file: str, test: str) -> bool:
    path = ROOT / file
    return path.is_file() and re.search(rf"def {test}\(", path.read_text()) is not None
