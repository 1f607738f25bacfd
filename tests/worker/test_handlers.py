"""What can be a handler, what it is given, and that nothing it does keeps its job running for good."""

from __future__ import annotations

import asyncio
import functools
import math
import sys
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest

from standfast import ConfigurationError, PayloadRejected, Standfast, current_session, no_backoff
from standfast.lifecycle import Transition
from standfast.testing import drain
from tests.store.suite import claim_one
from tests.waiting import ended, failure_of, job_of
from tests.worker.inside import begin, hand_in_to, held, store_of


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


class Generates:
    """An object whose `__call__` is a generator."""

    def __call__(self, _job: Any) -> Any:
        yield 1


@pytest.mark.parametrize("function", [generates, generates_async, Generates()])
async def test_a_generator_is_refused_because_it_would_never_run(sf, function):
    with pytest.raises(ConfigurationError, match="never run"):
        sf.handler("mail")(function)


def nothing_asked() -> None:
    pass


def two_asked(_job: Any, _more: Any) -> None:
    pass


@pytest.mark.parametrize("function", [nothing_asked, two_asked, lambda *, job: job, "deliver"])
async def test_a_handler_that_does_not_take_the_job_is_refused_when_it_is_registered(sf, function):
    with pytest.raises(
        ConfigurationError, match=r"handler mail (is called with one argument, the job|must be a function)"
    ):
        sf.handler("mail")(function)
    assert await sf.queues.list() == []
    sf.handler("mail")(lambda job, more=None, *others: (job, more, others))


async def test_a_handler_without_its_queue_is_refused_with_the_way_to_write_it(sf):
    with pytest.raises(ConfigurationError, match=r"the queue's name: write @sf\.handler\('mail'\), not <function"):
        sf.handler(nothing_asked)


@pytest.mark.parametrize("seconds", [-1, 0, math.nan, math.inf])
async def test_a_timeout_that_nothing_could_meet_is_refused(sf, seconds):
    with pytest.raises(ConfigurationError, match="handler mail: timeout must be more than 0 seconds"):
        sf.handler("mail", timeout=seconds)


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


async def test_what_the_first_of_many_puts_into_its_context_reaches_none_of_the_others(disk):
    """They were claimed together and never wait, so that one task runs them one after the other."""
    seen_there = []

    @disk.handler("mail")
    async def mail(job):
        seen_there.append(TENANT.get())
        TENANT.set(str(job.payload))

    await disk.enqueue_many("mail", range(5))
    await drain(disk)
    assert seen_there == ["nobody"] * 5


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
async def test_a_misfit_from_elsewhere_dies_at_its_first_claim_and_is_never_run(url, kind):
    async with Standfast(url) as door:
        receipt = await door.enqueue("mail", {"to": 5})
    runs: list[str] = []
    async with Standfast(url) as sf:

        @sf.handler("mail", input=kind)
        async def handler(job):
            runs.append(job.id)

        await drain(sf)
        job = await job_of(sf, receipt.id)
    assert (job.state, job.reason, job.attempts, runs) == ("dead", "schema_invalid", 0, [])
    assert failure_of(job).landed == "no"
    assert failure_of(job).message.startswith("the payload does not fit mail: ")
    assert "nothing was written" not in failure_of(job).message, "the job is stored, so that would be untrue"
    assert job.triage is not None
    assert job.triage.action == "quarantine"


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_collected_is_read_as_a_list_of_inputs(sf, kind):
    """Also if only one came. Without a thread there is nothing to collect with."""
    sf.queue("mail", coalesce="collect")

    @sf.handler("mail", input=kind)
    async def handler(job):
        given = job.input if isinstance(job.input, list) else (job.input,)
        return [type(given).__name__, *(each["to"] if kind is MailDict else each.to for each in given)]

    both = await handler.enqueue({"to": "a@b.c"}, thread_key="t")
    await handler.enqueue({"to": "d@e.f"}, thread_key="t")
    alone = await handler.enqueue({"to": "g@h.i"}, thread_key="u")
    threadless = await handler.enqueue({"to": "j@k.l"})
    await drain(sf)
    results = [(await job_of(sf, receipt.id)).result for receipt in (both, alone, threadless)]
    assert results == [["list", "a@b.c", "d@e.f"], ["list", "g@h.i"], ["tuple", "j@k.l"]]


@pytest.mark.parametrize("kind", KINDS)
async def test_each_newcomer_to_a_collection_is_checked_by_itself(sf, kind):
    sf.queue("mail", coalesce="collect")
    handler = sf.handler("mail", input=kind)(where)
    receipt = await handler.enqueue({"to": "a@b.c"}, thread_key="t")
    with pytest.raises(PayloadRejected):
        await handler.enqueue({"to": 5}, thread_key="t")
    assert (await job_of(sf, receipt.id)).payload == [{"to": "a@b.c"}]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_collection_with_a_misfit_dies_at_its_first_claim_and_is_never_run(url, kind):
    async with Standfast(url) as door:
        door.queue("mail", coalesce="collect")
        receipt = await door.enqueue("mail", {"to": "a@b.c"}, thread_key="t")
        await door.enqueue("mail", {"to": 5}, thread_key="t")
    runs: list[str] = []
    async with Standfast(url) as sf:

        @sf.handler("mail", input=kind)
        async def handler(job):
            runs.append(job.id)

        await drain(sf)
        job = await job_of(sf, receipt.id)
    assert (job.state, job.reason, job.attempts, runs) == ("dead", "schema_invalid", 0, [])
    assert job.payload == [{"to": "a@b.c"}, {"to": 5}]


@dataclass
class Fragile:
    """An input whose own check fails unexpectedly."""

    to: str

    def __post_init__(self) -> None:
        raise RuntimeError("the directory is down")


async def test_an_input_that_fails_unforeseen_is_a_misfit_too(url):
    """Its handler was never entered: nothing can have landed."""
    async with Standfast(url) as door:
        receipt = await door.enqueue("mail", {"to": "a@b.c"})
    async with Standfast(url) as sf:
        sf.handler("mail", input=Fragile, replay="manual")(where)
        await drain(sf)
        job = await job_of(sf, receipt.id)
        assert (job.state, job.reason, job.attempts) == ("dead", "schema_invalid", 0)
        assert failure_of(job).landed == "no"
        assert "the directory is down" in failure_of(job).message
        with pytest.raises(PayloadRejected, match="the directory is down; nothing was written"):
            await sf.enqueue("mail", {"to": "a@b.c"})


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


def close_oneself() -> None:
    raise GeneratorExit


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
@pytest.mark.parametrize("misbehave", [stop, leave, escape, cancel_oneself, close_oneself])
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


async def test_an_attempt_that_is_thrown_away_is_not_an_end(disk):
    """Python closes what a loop leaves behind. Nobody knows how far it came, so its job is left to the lease."""
    handed: list[Transition] = []
    entered = asyncio.Event()

    @disk.handler("mail")
    async def handler(_job):
        entered.set()
        await asyncio.Event().wait()

    await disk.enqueue("mail")
    worker = disk.worker()
    hand_in_to(worker, handed.append)
    task = await begin(worker, await claim_one(store_of(disk)))
    await entered.wait()
    task.get_coro().close()
    assert handed == []
    task.cancel()
    await asyncio.wait([task])
    assert isinstance(task.exception(), RuntimeError), "there is nothing left that could be cancelled"
