"""The profile that `docs/performance.md` tells you to run still runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROFILE = Path(__file__).parents[2] / "benchmarks" / "where_time_goes.py"


@pytest.mark.parametrize(
    ("what", "statement"),
    [("one", "insert_bodies"), ("callers", "insert_bodies"), ("bulk", "insert_jobs"), ("drain", "complete_jobs")],
)
def test_a_profile_names_the_statements_of_its_path(tmp_path, what, statement):
    command = [sys.executable, str(PROFILE), what, "--jobs", "130"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"  {statement} " in shown.stdout
