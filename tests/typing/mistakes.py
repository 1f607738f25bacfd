"""Mistakes that a type checker finds before anything runs. mypy and pyright read this; nothing runs it.

The comments are the test: each checker complains of one that has nothing to ignore.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

import msgspec

from standfast import Cancel, Effect, EffectToVerify, Handler, Job, LetterFilter, Receipt, Reply, Snooze, Standfast
from standfast.typed.sync import SyncHandler

sf = Standfast("queue.db")


class Mail(msgspec.Struct):
    """A typed payload."""

    to: str
    urgent: bool = False


@dataclass
class Sent:
    """A typed result."""

    id: int


class Order(TypedDict):
    """A payload that is a dict."""

    number: int


@sf.handler("mail")
async def send(job: Job[Mail]) -> Sent | Snooze | Cancel:
    """Take a model, give a model."""
    assert_type(job.input, Mail)
    len(job.input.sender)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    return Sent(len(job.input.to))


@sf.handler("orders", timeout=30)
def place(job: Job[Order]) -> int:
    """Take a dict, give a number; in a thread."""
    return job.input["number"]


@sf.handler("digests", input=Mail)
async def digest(job: Job[list[Mail]]) -> None:
    """Take collected payloads."""
    assert_type(job.input, list[Mail])


@sf.handler("mail", name="other", replay="never")  # type: ignore[call-overload, untyped-decorator]  # pyright: ignore[reportArgumentType]
async def other(job: Job[Mail]) -> None:
    """Be registered with a wrong option."""


assert_type(send, Handler[Mail, Sent])
assert_type(place, Handler[Order, int])
assert_type(digest, Handler[Mail, None])
assert_type(send.sync, SyncHandler[Mail, Sent])


async def right() -> None:
    """Make no mistake."""
    assert_type(await send.enqueue(Mail("ann"), delay="5m", risk="high"), Receipt)
    assert_type(await place.enqueue({"number": 7}), Receipt)
    assert_type(await digest.enqueue_many([Mail("ann")], keys=["k"]), list[Receipt])
    assert_type(await send.run(Mail("ann"), timeout=5), Reply[Sent])
    assert_type(await sf.run(send, Mail("ann")), Reply[Sent])
    assert_type(await sf.submit("mail", {"to": "ann"}), Reply[Any])
    assert_type(send.sync.run(Mail("ann")), Reply[Sent])
    assert_type(sf.sync.enqueue("mail", {"to": "ann"}, priority=3), Receipt)
    for notice in sf.sync.subscribe(["dead_letter"]):
        assert_type(notice.seq, int)
    with sf.sync.worker(["mail"]) as worker:
        worker.drain()


async def wrong_payloads() -> None:
    """Enqueue what does not fit."""
    await send.enqueue()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await send.enqueue("ann")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await send.enqueue(Mail(too="ann"))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await place.enqueue({"number": "7"})  # type: ignore[typeddict-item]  # pyright: ignore[reportArgumentType]
    await digest.enqueue([Mail("ann")])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await send.enqueue_many([{"to": "ann"}])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    await sf.run(send, 7)  # type: ignore[misc]  # pyright: ignore[reportCallIssue, reportArgumentType]
    send.sync.enqueue(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def wrong_options() -> None:
    """Mistype an option, or its value."""
    await send.enqueue(Mail("ann"), prority=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await send.enqueue(Mail("ann"), priority="high")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await sf.enqueue("mail", {}, idempotency=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await sf.enqueue("mail", {}, labels=["a"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await sf.enqueue("mail", {}, risk="huge")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await send.run(Mail("ann"), priority=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await sf.schedules.add("a", "mail", every="1h", delay=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    sf.workflow("a").step("b", send, Mail("ann"), thread_key="c")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    sf.queue("mail", atempts=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    sf.queue("mail", rate={"limt": 3})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    sf.queue("mail", coalesce="newest")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    sf.sync.wait("id")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@sf.handler("plain")
async def plain(job: Job[None]) -> int:
    """Take nothing."""
    return job.attempt


def steps() -> None:
    """Give a step what its handler does not take."""
    flow = sf.workflow("order")
    first = flow.step("mail", send, Mail("ann"), delay="5m")
    flow.step("place", place, {"number": 7}, after=[first, "mail"])
    flow.step("plain", plain, after=first)
    flow.step("by name", "mail", {"to": "ann"}, queue="mail")
    flow.step("wrong", send, "ann")  # type: ignore[misc]  # pyright: ignore[reportCallIssue, reportArgumentType]
    flow.step("wrong", send)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    flow.step("wrong", send, {"to": "ann"})  # type: ignore[misc]  # pyright: ignore[reportCallIssue, reportArgumentType]
    flow.step("wrong", place, "7")  # type: ignore[misc]  # pyright: ignore[reportCallIssue, reportArgumentType]
    flow.step("wrong", plain, 7)  # type: ignore[misc]  # pyright: ignore[reportCallIssue, reportArgumentType]
    sf.sync.workflow("order").step("wrong", send, 7)  # type: ignore[misc]  # pyright: ignore[reportCallIssue, reportArgumentType]


async def letter_filters(kind: LetterFilter) -> None:
    """Choose letters, and misspell what chooses them."""
    await sf.dead_letters.list({"queue": "mail", "class": "transient", "older_than": "2h", "payload": ("a.b", 1)})
    await sf.dead_letters.plan({**kind, "landed": "no"})
    await sf.dead_letters.list({"queu": "mail"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await sf.dead_letters.groups({"class": "transcient"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await sf.dead_letters.plan({"landed": "yes"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await sf.dead_letters.purge({"older": "2h"}, by="ann")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await sf.dead_letters.export("f", {"queue": 1})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    sf.sync.dead_letters.list({"queu": "mail"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def found(job: Job[Mail], effect: EffectToVerify) -> bool:
    """Check an effect."""
    return effect.key.endswith(job.input.to) and effect.begun


def wrong_check(job: Job[Mail], effect: Effect) -> bool:
    """Take what was declared for what is looked for."""
    return bool(effect.key == job.id)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


async def wrong_results() -> None:
    """Take a result for something else."""
    reply = await send.run(Mail("ann"))
    len(reply["results"])  # type: ignore[typeddict-item]  # pyright: ignore[reportGeneralTypeIssues]
    if "result" in reply:
        assert_type(reply["result"], Sent)
        len(reply["result"].to)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    if reply["status"] == "done":  # type: ignore[comparison-overlap]
        raise AssertionError
