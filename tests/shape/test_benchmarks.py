"""Every benchmark can still be started: a name that it imports may have moved since it was last run."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parents[2] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_finds_what_it_imports(path):
    assert "__doc__" in runpy.run_path(str(path), run_name="benchmark")
