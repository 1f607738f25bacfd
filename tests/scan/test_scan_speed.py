"""A hundred thousand lines are scanned in less than twenty seconds of processor time."""

from __future__ import annotations

import sysconfig
import time
from pathlib import Path

import pytest

from standfast.scan.scanner import scan

LIBRARY = Path(sysconfig.get_path("stdlib"))
SECONDS_PER_100_000_LINES = 20


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_hundred_thousand_lines_take_less_than_twenty_seconds():
    start = time.process_time()
    result = scan([LIBRARY], exclude=["test", "tests", "site-packages", "idlelib", "lib2to3", "encodings"])
    taken = time.process_time() - start
    assert result.lines > 100_000
    assert taken / result.lines * 100_000 < SECONDS_PER_100_000_LINES


def test_deep_code_does_not_end_the_scan(tmp_path):
    """A sum of two thousand terms is deeper than Python's own stack would bear."""
    (tmp_path / "deep.py").write_text("x = " + " + ".join(["f()"] * 2000) + "\n")
    (tmp_path / "chain.py").write_text("x = a" + ".b()" * 900 + "\n")
    branches = "".join(f"elif x == {number}:\n    pass\n" for number in range(900))
    (tmp_path / "branches.py").write_text(f"x = 1\nif x:\n    pass\n{branches}")
    result = scan([tmp_path])
    assert result.files == 3
    assert result.findings == []
