"""A store that an earlier version made: it opens, shows every job as it was, and is worked off to the same end.

What is kept of each version, and how it was made, is told in `README.md` here.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from standfast import Standfast
from tests.counts import wrong_counts
from tests.postgres import drop_schema
from tests.stores.application import declare, reopened
from tests.stores.looking import Look, differences, look
from tests.stores.restoring import restore_file, restore_schema
from tests.stores.working import work_off
from tests.warm import ROOT, run_warm

HERE = Path(__file__).parent
KILLED = HERE / "killed.py"
VERSIONS = sorted(kept.parent.name for kept in HERE.glob("*/sqlite.zip"))
FEWEST_STATEMENTS = {"sqlite": 10, "postgres": 3}
"""What opening executes at least, also where the schema lacks nothing."""


class Kept:
    """A store of an earlier version, as often as a test wants one, and what it looked like."""

    def __init__(self, archive: Path, place: Path, server: str | None) -> None:
        self._archive = archive
        self._places = (place / str(n) for n in count())
        self._server = server
        self._urls: list[str] = []
        seen: Look = json.loads(archive.with_suffix(".json").read_text())
        self.passed: float = seen["passed"]
        self.jobs: Look = seen["jobs"]
        self.beside: Look = seen["beside"]
        self.ends: Look = seen["ends"]

    def copy(self) -> str:
        """Give a store that nobody has opened since it was made."""
        if self._server is None:
            return restore_file(self._archive, next(self._places))
        self._urls.append(restore_schema(self._archive, self._server))
        return self._urls[-1]

    def drop(self, url: str) -> None:
        """Remove a copy."""
        if self._server is None:
            shutil.rmtree(Path(url).parent)
        else:
            drop_schema(url)
            self._urls.remove(url)

    def close(self) -> None:
        """Leave nothing on a server that may be somebody's."""
        for url in [*self._urls]:
            self.drop(url)


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request: pytest.FixtureRequest, version: str, tmp_path: Path) -> Iterator[Kept]:
    server = request.getfixturevalue("shared_server") if request.param == "postgres" else None
    found = Kept(HERE / version / f"{request.param}.zip", tmp_path, server)
    yield found
    found.close()


def test_stores_of_an_earlier_version_are_kept():
    assert VERSIONS
    assert all((HERE / version / f"{engine}.json").exists() for version in VERSIONS for engine in FEWEST_STATEMENTS)


async def test_it_opens_and_shows_everything_as_it_was(kept: Kept):
    async with Standfast(kept.copy(), clock=reopened(kept.passed)) as sf:
        await sf.migrate()
        found = await look(sf)
        examined = await sf.doctor(full=True)
    assert kept.jobs.keys() == found["jobs"].keys()
    assert [*differences(kept.jobs, found["jobs"]), *differences(kept.beside, found["beside"])] == []
    assert [each for each in examined["checks"] if each["problem"] and each["name"] != "health"] == []


async def test_a_worker_brings_every_job_to_the_same_end(kept: Kept):
    clock = reopened(kept.passed)
    async with Standfast(kept.copy(), clock=clock) as sf:
        declare(sf, sick=False)
        found = await work_off(sf, clock, kept.jobs, kept.ends)
        assert [*differences(kept.ends, found)] == []
        assert await wrong_counts(sf) == []
        audit = await sf.audit.verify()
        assert audit["ok"], audit
        assert audit["entries"] >= kept.beside["audit"]["entries"]


async def test_its_keys_still_tell_duplicates(kept: Kept):
    keyed = {job_id: job for job_id, job in kept.jobs.items() if job["idempotency_key"] and job["queue"] == "mail"}
    assert len(keyed) > 3
    async with Standfast(kept.copy(), clock=reopened(kept.passed)) as sf:
        for job_id, job in keyed.items():
            receipt = await sf.enqueue("mail", job["payload"], idempotency_key=job["idempotency_key"])
            assert (receipt.id, receipt.outcome, receipt.state) == (job_id, "duplicate", job["state"])


@pytest.mark.timeout(300)
async def test_killed_at_any_statement_of_the_migration_it_loses_nothing(kept: Kept, request: pytest.FixtureRequest):
    for n in count(1):
        url = kept.copy()
        ended = killed_at(n, url, kept.passed)
        async with Standfast(url, clock=reopened(kept.passed)) as sf:
            found = await look(sf)
            assert await wrong_counts(sf) == [], n
        assert [*differences(kept.jobs, found["jobs"]), *differences(kept.beside, found["beside"])] == [], n
        kept.drop(url)
        if ended == 0:
            break
    assert n > FEWEST_STATEMENTS[request.node.callspec.params["kept"]], "the statements were not counted"


def killed_at(n: int, url: str, passed: float) -> int:
    """Have a process open the store that is killed at a statement; give how it ended."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(KILLED), url, str(n), str(passed)]
    done = run_warm(command, capture_output=True, env=environment)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode
