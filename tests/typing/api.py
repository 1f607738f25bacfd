"""The public API as a typed application uses it. `mypy --strict` reads this; nothing runs it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import msgspec

from standfast import (
    Cancel,
    Effect,
    EffectToVerify,
    FileEffect,
    Found,
    HttpEffect,
    Job,
    JobView,
    Permanent,
    QueueRules,
    Receipt,
    Snooze,
    Standfast,
    StandfastError,
    StoreUnavailable,
    Transient,
    Uncertain,
    adaptive,
    current_session,
    exponential,
    fixed,
    no_backoff,
)
from standfast.testing import FrozenClock, assert_enqueued, drain, memory

sf = Standfast("sqlite:///queue.db")
in_memory = Standfast(":memory:", clock=FrozenClock())

assert_type(sf.queue("mail", attempts=10, backoff=exponential(base=5, cap=600)), QueueRules)
sf.queue("a", backoff=adaptive(), lease="90s", timeout=None)
sf.queue("b", backoff=fixed(3))
sf.queue("c", backoff=no_backoff())
sf.queue("d", backoff=lambda repeat: 2.0 * repeat)


class Mail(msgspec.Struct):
    """A typed payload."""

    to: str


@sf.handler("mail", input=Mail, replay="manual", timeout=30, risk="low", soft=False)
async def send(job: Job) -> dict[str, Any] | Snooze | Cancel:
    """Use everything a job offers."""
    assert_type(job.id, str)
    assert_type(job.queue, str)
    assert_type(job.attempt, int)
    assert_type(job.token, int)
    assert_type(job.idempotency_key, str)
    assert_type(job.session, str | None)
    assert_type(job.requester, str | None)
    assert_type(job.labels, dict[str, str])
    assert_type(job.cancelled, bool)
    assert_type(current_session(), str | None)
    mail: Mail = job.input
    if job.cancelled:
        return Snooze(60)
    if not mail.to:
        return Cancel("nobody to send it to")
    if job.attempt > 1:
        raise Transient("busy", retry_after=5)
    raise (Permanent("no", reason_code="denied") if job.payload else Uncertain("cut off", error_kind="timeout"))


ticket = Effect("ticket", lambda job, effect: bool(job.payload) and bool(effect.key), timeout=5)
page = HttpEffect("page", "https://example.org/{payload.id}", json={"key": "{key}"}, headers=lambda job: {"A": job.id})


async def find_page(job: Job[Mail], effect: EffectToVerify) -> Found | bool:
    """Check an effect, with the types that every check may name."""
    assert_type(job.input.to, str)
    assert_type(effect.name, str)
    assert_type(effect.key, str)
    assert_type(effect.begun, bool)
    return Found({"key": effect.key, "before": effect.receipt}) if job.input.to else False


sent = Effect("sent", find_page)


@sf.handler("tickets", replay="verify_first", effects=[ticket, page, FileEffect("file", "/srv/{key}", mode="absent")])
async def act(job: Job) -> Any:
    """Do every effect once."""
    async with job.effect("ticket") as effect:
        assert_type(effect.key, str)
        assert_type(effect.done, bool)
        if not effect.done:
            effect.record({"id": 7})
    return await job.once("page", dict, a=effect.receipt)


@sf.handler("wrapped", effects=lambda job: (act, job.payload))
def act_plainly(job: Job) -> Any:
    """Do them in a thread."""
    with job.effect("ticket") as effect:
        effect.record(None)
    size: int = job.step_sync("size", len, "receipt")
    return size + job.once_sync("page", len, "receipt")


async def measure(text: str, *, factor: float = 1.0) -> float:
    """Measure."""
    return len(text) * factor


@sf.handler("steps", effects=[Effect("sent", lambda job: Found({"id": job.id}))], when_landed="resume")
async def steps(job: Job) -> float:
    """Measure once, in a step."""
    size: float = await job.step("measure", measure, "text", factor=2.0)
    count: int = await job.step("count", len, "text")
    return size + count


@sf.handler("print")
def print_(job: Job) -> None:
    """Do it in a thread."""


async def accept() -> None:
    """Enqueue in every way."""
    assert_type(await sf.enqueue("mail", {"to": "a@b.c"}), Receipt)
    assert_type(await send.enqueue(Mail("a@b.c"), idempotency_key="k", priority=3, delay="5m"), Receipt)
    assert_type(await send.enqueue_many([Mail("a"), Mail("b")], session="s-1"), list[Receipt])
    assert_type(await sf.enqueue_many("mail", [1, 2], labels={"team": "red"}), list[Receipt])
    assert_type(sf.enqueue_sync("mail", at=datetime.now(UTC), expires=1e9, lease=timedelta(minutes=2)), Receipt)
    receipt = await sf.enqueue("mail")
    assert_type(receipt.id, str | None)
    assert_type(receipt.state, str | None)


async def look(job_id: str) -> None:
    """Look in every way."""
    assert_type(await sf.status(job_id), JobView | None)
    job = await sf.wait(job_id, timeout=5)
    assert_type(job, JobView)
    assert_type(job.attempts, int)
    assert_type(job.settled, bool)
    assert_type(job.created_at, datetime)
    assert_type(job.finished_at, datetime | None)
    if job.failure is not None:
        assert_type(job.failure.message, str)
    assert_type([line.delay for line in job.history], list[float | None])
    assert_type(await sf.health(), dict[str, Any])
    for each in await sf.jobs(queue="mail", state="dead", limit=10):
        assert_type(each, JobView)


async def work() -> None:
    """Work in this process, or until signalled."""
    async with sf, sf.worker(["mail"], concurrency=4, grace=5) as worker:
        await worker.drain()
    try:
        sf.run_worker()
    except StoreUnavailable as error:
        assert_type(error.definite, bool)
    except StandfastError:
        await sf.close()


async def rehearse() -> None:
    """Write a test."""
    async with memory() as rehearsal:
        rehearsal.clock.advance("5m")
        await drain(rehearsal)
        assert_type(await assert_enqueued(rehearsal, "mail", to="a@b.c"), JobView)
