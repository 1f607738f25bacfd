"""`job.progress`: what people see of a job that takes long."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from standfast import Job, Standfast, Transient
from standfast.store.store import Store
from standfast.testing import drain
from standfast.testing.kit import InMemory
from standfast.wings.progress.scripts import ProgressReport, write_reports
from tests.waiting import job_of


async def said(sf: Standfast, job_id: str | None, fraction: float) -> dict[str, Any]:
    """Wait until a job is known to be so far."""
    for _ in range(400):
        progress = (await job_of(sf, job_id)).progress
        if progress is not None and progress["fraction"] == fraction:
            return dict(progress)
        await asyncio.sleep(0.01)
    raise AssertionError(f"it says {progress}")


@pytest.mark.parametrize("plain", [False, True])
async def test_status_shows_how_far_a_job_says_it_is(sf: InMemory, *, plain: bool) -> None:
    def work(job: Job) -> None:
        job.progress(0.4, "2 of 5 files")
        raise Transient("later")

    async def awaited(job: Job) -> None:
        work(job)

    sf.handler("mail")(work if plain else awaited)
    receipt = await sf.enqueue("mail")
    assert (await job_of(sf, receipt.id)).progress is None
    await drain(sf)
    progress = await said(sf, receipt.id, 0.4)
    assert (progress["note"], progress["attempt"]) == ("2 of 5 files", 1)
    assert progress["at"].timestamp() == sf.clock.wall()


async def test_the_last_word_of_many_is_kept_and_few_are_written(sf: InMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[object] = []
    for name in ("write", "write_all"):
        monkeypatch.setattr(Store, name, counting(getattr(Store, name), written))

    @sf.handler("mail")
    async def mail(job: Job) -> None:
        for n in range(1000):
            job.progress(n / 1000, f"{n}")

    receipt = await sf.enqueue("mail")
    await drain(sf)
    assert (await said(sf, receipt.id, 0.999))["note"] == "999"
    assert len(written) == 1, "the first word at once; the last one is written with the end"


def counting(write: Callable[..., Any], written: list[object]) -> Callable[..., Any]:
    """Note each write of progress."""

    def counted(self: Store, script: object, items: object) -> Any:
        if script is write_reports:
            written.append(items)
        return write(self, script, items)

    return counted


async def test_the_next_attempt_says_anew_how_far_it_is(sf: InMemory) -> None:
    sf.queue("mail", backoff=lambda _: 10)

    @sf.handler("mail")
    async def mail(job: Job) -> None:
        if job.attempt == 1:
            job.progress(0.9)
            raise Transient("later")

    receipt = await sf.enqueue("mail")
    await drain(sf)
    await said(sf, receipt.id, 0.9)
    sf.clock.advance(20)
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (job.state, job.progress) == ("completed", None), "what another attempt said does not count for this one"


async def test_an_attempt_that_lost_its_job_says_nothing_any_more(sf: InMemory) -> None:
    sf.queue("mail", backoff=lambda _: 10)
    claims: list[Any] = []

    @sf.handler("mail")
    async def mail(job: Job) -> None:
        claims.append(job._claim)  # noqa: SLF001 - as its worker holds it
        job.progress(job.attempt / 10)
        raise Transient("later")

    receipt = await sf.enqueue("mail")
    await drain(sf)
    sf.clock.advance(20)
    await drain(sf)
    await said(sf, receipt.id, 0.2)
    old = ProgressReport(claims[0].n, claims[0].token, 1, 0.7, "too late")
    await sf._store.write(write_reports, old)  # noqa: SLF001
    progress = (await job_of(sf, receipt.id)).progress
    assert progress is not None
    assert (progress["fraction"], progress["attempt"]) == (0.2, 2)


async def test_a_share_beyond_the_whole_is_shown_as_the_whole_and_fails_nothing(
    sf: InMemory, caplog: pytest.LogCaptureFixture
) -> None:
    sf.handler("mail")(lambda job: job.progress(40))
    receipt = await sf.enqueue("mail")
    await drain(sf)
    await said(sf, receipt.id, 1.0)
    assert (await job_of(sf, receipt.id)).state == "completed"
    assert "progress is a share from 0 to 1" in caplog.text


@pytest.mark.parametrize("wrong", ["0.4", None, float("nan"), True])
async def test_what_is_no_share_is_refused(sf: InMemory, wrong: Any) -> None:
    refused: list[str] = []

    @sf.handler("mail")
    async def mail(job: Job) -> None:
        with pytest.raises(TypeError, match="from 0 to 1") as raised:
            job.progress(wrong)
        refused.append(str(raised.value))

    await sf.enqueue("mail")
    await drain(sf)
    assert len(refused) == 1


async def test_a_run_says_how_far_it_is_too(sf: InMemory) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @sf.handler("mail")
    async def mail(job: Job) -> str:
        job.progress(0.5, "half")
        begun.set()
        await go_on.wait()
        return "done"

    running = asyncio.create_task(sf.run("mail"))
    await begun.wait()
    [job] = await sf.jobs()
    assert (await said(sf, job.id, 0.5))["note"] == "half"
    go_on.set()
    assert (await running)["status"] == "ok"


@pytest.mark.parametrize("plain", [False, True])
async def test_the_last_word_before_the_end_is_there_with_the_end(sf: InMemory, *, plain: bool) -> None:
    def work(job: Job) -> None:
        job.progress(0.1, "begun")
        if plain:
            time.sleep(0.05)
        job.progress(1.0, "all 10 of 10")

    async def awaited(job: Job) -> None:
        work(job)

    sf.handler("mail")(work if plain else awaited)
    receipt = await sf.enqueue("mail")
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert job.progress is not None
    assert (job.state, job.progress["fraction"], job.progress["note"]) == ("completed", 1.0, "all 10 of 10")


@pytest.mark.parametrize("plain", [False, True])
async def test_a_letter_names_the_place_where_its_attempt_failed(sf: InMemory, *, plain: bool) -> None:
    sf.queue("mail", attempts=1)

    def work(job: Job) -> None:
        for row in range(1, 11):
            job.progress(row / 10, f"row {row}")
            if row == 6:
                raise ValueError("no such row")

    async def awaited(job: Job) -> None:
        work(job)

    sf.handler("mail")(work if plain else awaited)
    receipt = await sf.enqueue("mail")
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert job.progress is not None
    assert (job.state, job.progress["note"]) == ("dead", "row 6")


async def test_a_run_has_its_last_word_when_it_returns(sf: InMemory) -> None:
    @sf.handler("mail")
    async def mail(job: Job) -> str:
        job.progress(0.1, "begun")
        job.progress(1.0, "sent")
        return "done"

    await sf.run("mail")
    [job] = await sf.jobs()
    progress = (await job_of(sf, job.id)).progress
    assert progress is not None
    assert (progress["fraction"], progress["note"]) == (1.0, "sent")


async def test_the_last_word_costs_no_write_of_its_own_and_no_late_one_replaces_it(
    sf: InMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer's thread may have taken an older word, and hand it to the store only after the end."""
    older, claims = threading.Event(), []
    write_all = Store.write_all

    def held_up(self: Store, script: object, items: object) -> Any:
        if script is write_reports:
            older.wait(10)
        return write_all(self, script, items)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "write_all", held_up)

    @sf.handler("mail")
    def mail(job: Job) -> None:
        claims.append(job._claim)  # noqa: SLF001 - as its worker holds it
        job.progress(0.1, "begun")
        time.sleep(0.05)
        job.progress(1.0, "sent")

    receipt = await sf.enqueue("mail")
    await drain(sf)
    assert (await said(sf, receipt.id, 1.0))["note"] == "sent"
    older.set()
    late = ProgressReport(claims[0].n, claims[0].token, 1, 0.1, "begun")
    await sf._store.write(write_reports, late)  # noqa: SLF001
    assert (await said(sf, receipt.id, 1.0))["note"] == "sent"
