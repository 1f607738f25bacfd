"""The examples run, as a reader would run them, and say what they promise."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
    assert done.returncode == 0, done.stderr
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
    said = "\n".join(told[1:])  # two threads write at once, and their lines may run together
    assert [said.count(words) for words in ("ann: sent", "bob: sent", "welcome, ann", "welcome, bob")] == [1, 1, 1, 1]
    assert run("sync_app.py", path)[0] == "duplicate duplicate duplicate", "the keys outlive completion and process"


@pytest.mark.long
def test_http_outage(path):
    for arguments in ((), (path,), (path,)):
        *told, attempts = run("http_outage.py", *arguments)
        assert told == [
            "the receiver is down: 5 requests are accepted",
            "each was tried in vain and waits; 0 arrived",
            "the receiver is back",
            "accepted 5, completed 5, lost 0, delivered twice 0",
        ]
        assert int(attempts.removeprefix("the most attempts one took: ")) > 1


def test_pull_request_burst(path):
    for arguments in ((), (path,)):
        assert run("pull_request_burst.py", *arguments) == [
            "accepted coalesced coalesced coalesced coalesced accepted duplicate accepted",
            "master: the build is broken (0 folded into it)",
            "pr-9: what do you think? (0 folded into it)",
            "pr-7: comment 5 (4 folded into it)",
        ]
