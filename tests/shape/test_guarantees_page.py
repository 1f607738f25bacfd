"""`docs/guarantees.md` names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(\w+/test_\w+\.py)`")


def guaranteed() -> list[str]:
    page = (ROOT / "docs" / "guarantees.md").read_text().partition("## Guaranteed")[2].partition("\n## ")[0]
    return [line for line in page.splitlines() if line.startswith("|") and not line.startswith(("| promise", "|---"))]


def test_every_test_that_the_page_names_is_there() -> None:
    named = NAMED.findall("\n".join(guaranteed()))
    assert named
    assert [file for file in named if not (ROOT / "tests" / file).is_file()] == []


def test_every_guarantee_names_a_test() -> None:
    assert guaranteed()
    assert [row for row in guaranteed() if not NAMED.search(row)] == []
