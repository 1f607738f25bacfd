"""Imports that are killed in the middle, and two at once: each record is here once, whole."""

from __future__ import annotations

import ast
import asyncio
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from standfast import Standfast
from standfast.store.postgres.driver import STATEMENTS
from standfast.wings.imports import known_shapes
from standfast.wings.imports.jsonl_reader import jsonl
from standfast.wings.imports.scripts import ONE_AT_A_TIME
from tests.postgres import connect
from tests.warm import Warm
from tests.worker.bringing import AT_ONCE
from tests.worker.old_stores import event, lines
from tests.worker.processes import environment

BRINGING = Path(__file__).with_name("bringing.py")
MANY = 300
STATES = ("pending", "processing", "dead_letter")
"""Each third is stored in its own way."""


def old_queue(tmp_path: Path) -> str:
    """Write many records: some wait, some were tried, some were being worked on, some are dead."""
    records = [event(n, status=STATES[n % 3], attempts=n % 2, last_error=f"error {n}") for n in range(MANY)]
    return lines(tmp_path / "queue.jsonl", records)


def importing(url: str, file: str) -> Warm:
    """Begin an import in a process of its own."""
    return Warm([sys.executable, str(BRINGING), url, file], env=environment(), stdout=subprocess.PIPE, text=True)


async def check_each_is_here_once(sf: Standfast) -> None:
    """See that every record is here once, with its state and its one line of history."""
    found = []
    cursor = None
    while True:
        page = await sf.jobs(limit=100, cursor=cursor)
        found += [*page]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sorted(job.payload["n"] for job in found) == [*range(MANY)]
    for job in found:
        number = job.payload["n"]
        assert job.state == ("queued" if number % 3 == 0 else "dead")
        assert len(job.history) == (1 if job.attempts else 0), "history is written once"
    assert {job.attempts for job in found if job.state == "queued"} == {0, 1}


async def test_an_import_that_is_killed_is_run_again_and_brings_each_record_once(disk, url, tmp_path):
    file = old_queue(tmp_path)
    with importing(url, file) as child:
        assert child.stdout is not None
        assert [int(child.stdout.readline()) for _ in range(3)] == [AT_ONCE, 2 * AT_ONCE, 3 * AT_ONCE]
        child.kill()
    assert child.returncode == -signal.SIGKILL
    report = await disk.imports.bring_in(jsonl(file), known_shapes.JSONL, by="ann")
    assert 3 * AT_ONCE <= report.outcomes["known"] < MANY
    assert report.outcomes.total() == MANY
    await check_each_is_here_once(disk)


ONCE = {"queued": 50, "tried": 50, "in_doubt": 100, "dead": 100, "known": MANY}
"""What two imports of all records tell together."""


async def test_two_imports_at_once_bring_each_record_once(disk, url, tmp_path):
    file = old_queue(tmp_path)
    await disk.stats()  # makes the store: the two are to meet over records
    both = [importing(url, file), importing(url, file)]
    told = [child.communicate(timeout=60)[0].splitlines()[-1] for child in both]
    assert [child.returncode for child in both] == [0, 0]
    assert sum((Counter(ast.literal_eval(each)) for each in told), Counter()) == ONCE
    await check_each_is_here_once(disk)


async def test_two_imports_at_once_count_each_record_once(disk, url, tmp_path):
    """Records with nothing behind them: no second line of history would tell that one came twice."""
    file = lines(tmp_path / "queue.jsonl", [event(n) for n in range(3 * MANY)])
    await disk.stats()
    both = [importing(url, file), importing(url, file)]
    told = [child.communicate(timeout=60)[0].splitlines()[-1] for child in both]
    assert sum((Counter(ast.literal_eval(each)) for each in told), Counter()) == {"queued": 3 * MANY, "known": 3 * MANY}
    assert (await disk.stats())["total_pending"] == 3 * MANY


async def test_an_import_waits_for_the_transaction_of_another_one(used_postgres_url, tmp_path):
    """What the other has written is seen only when it is committed."""
    file = lines(tmp_path / "queue.jsonl", [event(1)])
    async with Standfast(used_postgres_url) as sf:
        with connect(used_postgres_url) as other, other.transaction():
            other.execute(STATEMENTS["lock_gates"].sql.encode(), {"gates": f'["{ONE_AT_A_TIME}"]'})
            bringing = asyncio.ensure_future(sf.imports.bring_in(jsonl(file), known_shapes.JSONL, by="ann"))
            _, waiting = await asyncio.wait([bringing], timeout=0.3)
            assert waiting
        assert (await bringing).outcomes == {"queued": 1}
