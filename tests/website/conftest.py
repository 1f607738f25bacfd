"""The site, built once for a run, however many processes the run has."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from website.sources import ROOT, lay_out


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Give the folder of the built site; the first process builds it, the others wait for it."""
    shared = tmp_path_factory.getbasetemp()
    place = (shared if worker_id == "master" else shared.parent) / "site"
    with (place.parent / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            _build(lay_out(place.parent / "site-sources"), place)
    return place


def _build(sources: Path, to: Path) -> None:
    """Build as script/docs does: a warning is a failure."""
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "-c", f"{ROOT}/website"]
    done = subprocess.run([*command, str(sources), str(to)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
