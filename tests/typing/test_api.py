"""The public API keeps its types: a strict type checker reads an application that uses all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long  # script/test has mypy read api.py too, with the project's own settings
def test_a_typed_application_passes_a_strict_type_checker(tmp_path):
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nstrict = True\nfollow_imports = silent\n")
    found = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--config-file", str(settings), "--cache-dir", str(tmp_path / "cache")),
            str(Path(__file__).with_name("api.py")),
        ],
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=55,
    )
    assert found.returncode == 0, found.stdout + found.stderr
