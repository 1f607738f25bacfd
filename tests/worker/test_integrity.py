"""`doctor` reads the whole store: what is damaged is found before a job is missed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from standfast import Standfast
from tests.postgres import connect


async def integrity(sf: Standfast, *, full: bool = False) -> Any:
    report = await sf.doctor(full=full)
    [found] = [check for check in report["checks"] if check["name"] == "integrity"]
    assert report["ok"] or found["problem"] or any(check["problem"] for check in report["checks"])
    return found


def delete_body(url: str, job: str) -> None:
    if url.startswith("postgres"):
        with connect(url) as other:
            other.execute("DELETE FROM body WHERE id = %s", (job,))
    else:
        with closing(apsw.Connection(url)) as file:
            file.execute("DELETE FROM body WHERE id = ?", (job,))


def overwrite(path: str, offset: int, data: bytes) -> None:
    """Change bytes of a file that no store has open."""
    with Path(path).open("r+b") as file:
        file.seek(offset, 2 if offset < 0 else 0)
        file.write(data)


@pytest.mark.parametrize("full", [False, True])
async def test_a_store_that_is_whole_is_found_whole_and_the_report_says_what_was_checked(disk, full):
    await disk.enqueue("mail", 1)
    found = await integrity(disk, full=full)
    assert found["problem"] is None
    assert "every job has its body, every body, result and effect its job" in str(found["value"])


async def test_tables_that_contradict_each_other_are_found(disk, url):
    receipt = await disk.enqueue("mail", 1)
    delete_body(url, receipt.id)
    found = await integrity(disk)
    assert "the tables contradict each other: 1 jobs without a body; restore a backup" in str(found["problem"])


async def test_a_damaged_page_is_found(in_file, path):
    for number in range(50):
        await in_file.enqueue("mail", [number] * 500)
    await in_file.close()
    overwrite(path, -3 * 4096, b"\xa5" * 3 * 4096)
    async with Standfast(path) as again:
        found = await integrity(again)
        assert "quick_check" in str(found["problem"]) or "malformed" in str(found["problem"])


async def test_an_index_that_lacks_a_row_is_found_by_a_full_check(in_file, path):
    await in_file.enqueue("mail", 1)
    await in_file.close()
    with closing(apsw.Connection(path)) as file:
        root = file.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'job_ready'").get
        size = file.pragma("page_size")
    overwrite(path, (root - 1) * size + 3, bytes(2))  # how many rows the page has
    async with Standfast(path) as again:
        assert "job_ready" in str((await integrity(again, full=True))["problem"])


async def test_the_server_checks_indexes_where_it_can(used_postgres_url):
    async with Standfast(used_postgres_url) as sf:
        await sf.enqueue("mail", 1)
        assert "indexes were not checked, because the server lacks amcheck" in str((await integrity(sf))["value"])
        with connect(used_postgres_url) as server:
            try:
                server.execute("CREATE EXTENSION amcheck")
            except psycopg.Error:
                pytest.skip("this server has no amcheck to install")
            try:
                assert "amcheck found nothing in" in str((await integrity(sf, full=True))["value"])
            finally:
                server.execute("DROP EXTENSION amcheck")
