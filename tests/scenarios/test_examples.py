"""The examples run, as a reader would run them, and say what they promise."""

from __future__ import annotations

import subprocess
import sys

from tests.worker.processes import ROOT, environment


def run(name: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name), *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_fire_and_forget(path):
    for arguments in ((), (path,)):
        first, second, last = run("fire_and_forget.py", *arguments)
        assert first == "here you are"
        assert second.startswith("delivered ['picture of a cat'] on attempt ")
        assert last.startswith("completed after ")
        assert last.endswith(" attempts: {'delivered': 1}")


def test_sync_app(path):
    told = run("sync_app.py", path)
    assert told[0] == "accepted accepted duplicate"
    assert sorted(told[1:]) == ["ann: sent", "bob: sent", "welcome, ann", "welcome, bob"]
    assert run("sync_app.py", path)[0] == "duplicate duplicate duplicate", "the keys outlive completion and process"
