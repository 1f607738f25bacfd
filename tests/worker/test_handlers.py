"""What can be a handler, what it is given, and that nothing it does keeps its job running for good."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest

from standfast import ConfigurationError, PayloadRejected, Standfast, current_session, no_backoff
from standfast.testing import drain
from tests.waiting import ended, failure_of, job_of
from tests.worker.inside import held


async def where(_job: Any) -> str:
    """Tell which thread an async handler runs on."""
    await asyncio.sleep(0)
    return threading.current_thread().name


class Deliverer:
    """An object with an async `__call__` is a handler too."""

    async def __call__(self, job: Any) -> str:
        return await where(job)


class Printer:
    """So is one with a plain `__call__`."""

    def __call__(self, _job: Any) -> str:
        return threading.current_thread().name


def decorated(function: Any) -> Any:
    """Wrap as many decorators do: the wrapper is plain, what it gives is awaited."""

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


@pytest.mark.parametrize(
    "handler",
    [where, Deliverer(), functools.partial(where), decorated(where), lambda job: where(str(job))],
    ids=["function", "object", "partial", "decorated", "lambda"],
)
async def test_async_handlers_run_on_the_loop(sf, handler):
    sf.handler("mail")(handler)
    receipt = await sf.enqueue("mail")
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (job.state, job.result, job.warning) == ("completed", threading.current_thread().name, None)


@pytest.mark.parametrize("handler", [lambda _job: threading.current_thread().name, Printer()], ids=["lambda", "object"])
async def test_plain_handlers_run_in_a_thread(sf, handler):
    sf.handler("mail")(handler)
    receipt = await sf.enqueue("mail")
    await drain(sf)
    assert (await job_of(sf, receipt.id)).result.startswith("standfast-handler")


def generates(_job: Any) -> Any:
    yield 1


async def generates_async(_job: Any) -> Any:
    yield 1


@pytest.mark.parametrize("function", [generates, generates_async])
async def test_a_generator_is_refused_because_it_would_never_run(sf, function):
    with pytest.raises(ConfigurationError, match="never run"):
        sf.handler("mail")(function)


async def test_a_handler_stays_callable(sf):
    @sf.handler("mail")
    async def double(number):
        return 2 * number

    assert await double(21) == 42
    assert (double.__name__, double.queue, double.name) == ("double", "mail", "mail")


async def test_two_handlers_of_one_name_are_a_mistake(sf):
    sf.handler("mail")(where)
    sf.handler("mail", name="other")(where)
    with pytest.raises(ConfigurationError, match="already has a handler"):
        sf.handler("mail")(where)


async def test_what_cannot_be_verified_is_refused(sf):
    with pytest.raises(ConfigurationError, match="effects"):
        sf.handler("mail", replay="verify_first")
    with pytest.raises(ConfigurationError, match="unknown"):
        sf.handler("mail", replay="sometimes")


# --- what a handler is given


async def test_the_job_tells_what_came_with_it(sf):
    told: list[dict[str, Any]] = []
    names = ("id", "queue", "payload", "input", "attempt", "idempotency_key", "session", "requester", "labels")

    @sf.handler("mail", name="sender")
    async def handler(job):
        told.append({name: getattr(job, name) for name in (*names, "cancelled", "token")})

    options = {"session": "s-1", "requester": "ann", "labels": {"team": "red"}, "idempotency_key": "k-1"}
    full = await handler.enqueue({"to": "a@b.c"}, **options)
    bare = await handler.enqueue([1])
    await drain(sf)
    assert told[0] == {
        **options,
        "id": full.id,
        "queue": "mail",
        "payload": {"to": "a@b.c"},
        "input": None,
        "attempt": 1,
        "cancelled": False,
        "token": 1,
    }
    assert (told[1]["idempotency_key"], told[1]["session"], told[1]["labels"]) == (bare.id, None, {})


async def test_attempt_and_token_grow_and_the_rest_stays(sf):
    told: list[tuple[Any, ...]] = []
    sf.queue("mail", backoff=no_backoff())

    @sf.handler("mail")
    async def handler(job):
        told.append((job.attempt, job.token, job.id, job.idempotency_key))
        if job.attempt < 3:
            raise KeyError

    receipt = await sf.enqueue("mail")
    await drain(sf)
    assert told == [(n, n, receipt.id, receipt.id) for n in (1, 2, 3)]


@pytest.mark.parametrize("plain", [True, False])
async def test_the_session_is_restored_around_every_attempt(sf, plain):
    told: list[str | None] = []
    sf.queue("mail", backoff=no_backoff())

    def tell(job: Any) -> None:
        told.append(current_session())
        if job.attempt == 1:
            raise KeyError

    async def tell_async(job: Any) -> None:
        tell(job)

    sf.handler("mail")(tell if plain else tell_async)
    for session in ("s-1", None, "s-2"):
        await sf.enqueue("mail", session=session)
        await drain(sf)
    assert told == ["s-1", "s-1", None, None, "s-2", "s-2"]
    assert current_session() is None


TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")


async def test_what_one_handler_puts_into_its_context_does_not_reach_the_next(disk):
    seen: list[str] = []

    @disk.handler("mail")
    async def handler(job):
        seen.append(TENANT.get())
        TENANT.set(f"tenant of {job.id}")

    receipts = await disk.enqueue_many("mail", list(range(5)))  # the end of each lets the next one be claimed
    async with disk.worker(concurrency=1):
        for receipt in receipts:
            await ended(disk, receipt.id)
    assert seen == ["nobody"] * 5


# --- inputs


class MailStruct(msgspec.Struct):
    """One kind of input."""

    to: str
    copies: int = 1


@dataclass
class MailData:
    """Another."""

    to: str
    copies: int = 1


class MailDict(TypedDict, total=False):
    """A third."""

    to: str
    copies: int


class MailModel:
    """What a pydantic model looks like from outside."""

    def __init__(self, to: str) -> None:
        self.to = to

    @classmethod
    def model_validate_json(cls, text: str) -> MailModel:
        given = msgspec.json.decode(text)
        if not isinstance(given.get("to"), str):
            raise ValueError("to: a text is wanted")  # noqa: TRY004 - pydantic's errors are ValueErrors
        return cls(given["to"])


KINDS = [MailStruct, MailData, MailDict, MailModel]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_payload_is_read_as_the_handlers_input(sf, kind):
    @sf.handler("mail", input=kind)
    async def handler(job):
        to = job.input["to"] if kind is MailDict else job.input.to
        return f"{type(job.input).__name__} {to}"

    receipt = await handler.enqueue({"to": "a@b.c"})
    await drain(sf)
    name = "dict" if kind is MailDict else kind.__name__
    assert (await job_of(sf, receipt.id)).result == f"{name} a@b.c"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_misfit_is_refused_where_the_handler_is_known_and_nothing_is_written(sf, kind):
    handler = sf.handler("mail", input=kind)(where)
    with pytest.raises(PayloadRejected, match="nothing was written"):
        await handler.enqueue({"to": 5})
    with pytest.raises(PayloadRejected):
        await sf.enqueue("mail", {"to": 5})
    with pytest.raises(PayloadRejected):
        await sf.enqueue_many("mail", [{"to": "a@b.c"}, {"to": 5}])
    assert not await sf.jobs()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_misfit_from_elsewhere_dies_at_its_first_claim_and_is_never_run(path, kind):
    async with Standfast(path) as door:
        receipt = await door.enqueue("mail", {"to": 5})
    runs: list[str] = []
    async with Standfast(path) as sf:

        @sf.handler("mail", input=kind)
        async def handler(job):
            runs.append(job.id)

        await drain(sf)
        job = await job_of(sf, receipt.id)
    assert (job.state, job.reason, job.attempts, runs) == ("dead", "schema_invalid", 0, [])
    assert failure_of(job).landed == "no"
    assert job.triage is not None
    assert job.triage.action == "quarantine"


@dataclass
class Fragile:
    """An input whose own check fails in a way nobody foresaw."""

    to: str

    def __post_init__(self) -> None:
        raise RuntimeError("the directory is down")


async def test_an_input_that_fails_unforeseen_does_not_keep_its_job_running(path):
    async with Standfast(path) as door:
        receipt = await door.enqueue("mail", {"to": "a@b.c"}, attempts=1)
    async with Standfast(path) as sf:
        sf.handler("mail", input=Fragile)(where)
        await drain(sf)
        job = await job_of(sf, receipt.id)
    assert (job.state, failure_of(job).message) == ("dead", "the directory is down")


# --- handlers that misbehave


class NotAnException(BaseException):
    """What test frameworks and cancel scopes raise past `except Exception`."""


def stop() -> None:
    next(iter([]))


def leave() -> None:
    sys.exit(3)


def escape() -> None:
    raise NotAnException


def cancel_oneself() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
@pytest.mark.parametrize("misbehave", [stop, leave, escape, cancel_oneself])
async def test_no_exception_kills_the_worker_or_keeps_a_job_running(disk, misbehave, plain):
    disk.queue("mail", attempts=2, backoff=no_backoff())

    def handler(job: Any) -> Any:
        return None if job.payload == "fine" else misbehave()

    async def handler_async(job: Any) -> Any:
        return handler(job)

    disk.handler("mail")(handler if plain else handler_async)
    async with disk.worker(concurrency=2) as worker:
        bad = await disk.enqueue("mail", "bad")
        job = await ended(disk, bad.id)
        assert (job.state, job.reason, job.attempts) == ("dead", "max_attempts", 2)
        fine = await disk.enqueue("mail", "fine")
        assert (await ended(disk, fine.id)).state == "completed"
    assert held(worker) == {}
