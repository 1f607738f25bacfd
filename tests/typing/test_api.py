"""The public API keeps its types, and notices their kinds: a strict type checker reads what uses them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long  # script/test has mypy read them too, with the project's own settings
@pytest.mark.parametrize("read", ["api.py", "telling.py"])
def test_a_strict_type_checker_finds_what_it_should_and_nothing_else(read, tmp_path):
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nstrict = True\nfollow_imports = silent\n")
    found = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--config-file", str(settings), "--cache-dir", str(tmp_path / "cache")),
            str(Path(__file__).with_name(read)),
        ],
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=55,
    )
    assert found.returncode == 0, found.stdout + found.stderr
