"""run: recorded first, called here, never called twice for one key, and past nothing that holds a worker back."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

from standfast import (
    ConfigurationError,
    IdempotencyConflict,
    PayloadRejected,
    Permanent,
    Standfast,
    Transient,
    UnknownHandler,
    UnknownJob,
)
from standfast.errors import NotALetter
from standfast.testing import drain
from standfast.wings.calls import scripts
from standfast.worker.pruner import Pruner
from tests.between import between
from tests.waiting import ended, job_of, seen
from tests.worker.counted import counting
from tests.worker.inside import listeners, live_callers, publish_elsewhere, store_of

NOBODY_WAITS = 30.0


async def test_a_call_is_recorded_and_run_here_and_its_reply_has_the_result(sf):
    seen_inside: list[Any] = []

    @sf.handler("mail")
    async def mail(job):
        stored = await job_of(sf, job.id)
        seen_inside.append((stored.state, stored.attempts, stored.session, stored.worker))
        return {"sent": job.payload["to"]}

    said = await sf.run(mail, {"to": "ada"}, session="s-1")
    assert (said["status"], said["result"], said["hint"]) == (
        "ok",
        {"sent": "ada"},
        "It is done; the result is here.",
    )
    [worker] = await live_callers(sf)
    assert seen_inside == [("running", 1, "s-1", worker.id)]
    job = await job_of(sf, said["operation_id"])
    assert (job.state, job.attempts, job.queue_reason, job.worker) == ("completed", 1, "retry", None)
    assert worker.queues == "[]", "it serves no queue: nothing else is to be expected of it"
    counted = await sf.stats()
    assert (counted["worker_running"], counted["workers"]) == (False, []), "it is no worker that jobs could wait for"
    await sf.close()
    await sf.open()
    assert await live_callers(sf) == ()


@pytest.mark.parametrize("plain", [False, True])
async def test_it_works_beside_a_worker_which_leaves_it_alone(sf, plain):
    workers: list[str | None] = []

    async def look(job: Any) -> None:
        workers.append((await job_of(sf, job.id)).worker)

    if plain:
        loop = asyncio.get_running_loop()
        sf.handler("mail")(lambda job: asyncio.run_coroutine_threadsafe(look(job), loop).result())
    else:
        sf.handler("mail")(look)
    async with sf.worker() as worker:
        replies = await asyncio.gather(*(sf.run("mail", number) for number in range(20)))
    assert {reply["status"] for reply in replies} == {"ok"}
    assert len(workers) == 20
    assert worker.id not in workers


@pytest.mark.parametrize(
    ("name", "handler"),
    [("mail", "mail"), ("mail/mail", "mail"), ("print/label", "label"), ("print", "label"), ("label", "label")],
)
async def test_a_handler_is_named_by_its_queue_its_name_or_both(sf, name, handler):
    counting(sf, "mail")
    counting(sf, "mail", name="other")
    counting(sf, "print", name="label")
    said = await sf.run(name, 1)
    assert (said["status"], (await job_of(sf, said["operation_id"])).handler) == ("ok", handler)


async def test_a_name_that_can_mean_several_is_refused_before_anything_is_written(sf):
    counting(sf, "mail", name="one")
    counting(sf, "mail", name="two")
    counting(sf, "print", name="two")
    for name in ("mail", "two"):
        with pytest.raises(ConfigurationError, match=r"can mean mail/(one|two), \w+/two; nothing was written"):
            await sf.run(name, 1)
    with pytest.raises(ConfigurationError, match="handler must be printable text"):
        await sf.run(7)
    assert await sf.jobs() == []


async def test_what_does_not_fit_the_handler_is_refused_before_anything_is_written(sf):
    @sf.handler("mail", input=dict[str, int])
    async def mail(_job):
        raise AssertionError

    with pytest.raises(PayloadRejected):
        await mail.run({"to": "ada"})
    for wrong in (0, -1, "soon", float("nan"), True):
        with pytest.raises(ConfigurationError):
            await mail.run({}, timeout=wrong)
    assert await sf.jobs() == []


# --- the same key


async def test_the_same_key_gives_the_stored_result_and_never_a_second_call(sf):
    calls = counting(sf)
    first = await sf.run("mail", 1, idempotency_key="k")
    again = await sf.run("mail", 1, idempotency_key="k")
    assert (again, calls) == (first, {1: 1})
    with pytest.raises(IdempotencyConflict):
        await sf.run("mail", 2, idempotency_key="k")


@pytest.mark.parametrize("here", [True, False], ids=["handler here", "handler elsewhere"])
@pytest.mark.parametrize("verb", ["run", "submit"])
async def test_what_came_of_a_key_is_told_only_the_session_that_called(sf, verb, here):
    """The other one is told where it stands, so that it does not have it done twice, and nothing of what came of it."""
    calls = []

    @sf.handler("pay", consent=True)
    async def pay(job):
        calls.append(job.session)
        return {"account": "secret"}

    await sf.consent.grant("a", pay, by="anna")
    mine = await sf.run("pay", 1, session="a", idempotency_key="k")
    assert mine["result"] == {"account": "secret"}
    name = "pay" if here else "pay/elsewhere"
    await publish_elsewhere(sf, "pay", "elsewhere")
    await sf.enqueue("pay", 1, handler="elsewhere", session="a", idempotency_key="else")
    key = "k" if here else "else"
    theirs = await getattr(sf, verb)(name, 1, session="b", idempotency_key=key)
    assert (theirs["status"], theirs["reason_code"]) == ("ok" if here else "queued", "not_yours")
    assert "Another session's call has this key" in theirs["hint"]
    assert {*theirs} == {"operation_id", "status", "reason_code", "hint"}
    for session in ("a", None):  # who names no session may look at every job
        assert await sf.submit("pay", 1, session=session, idempotency_key="k") == mine
    assert calls == ["a"]


async def test_a_door_that_says_who_asks_gets_only_what_that_person_asked_for(sf):
    counting(sf)
    whole = await sf.run("mail", 1, requester="ada", idempotency_key="k")
    assert (await sf.run("mail", 1, requester="bob", idempotency_key="k"))["reason_code"] == "not_yours"
    assert whole == await sf.run("mail", 1, requester="ada", idempotency_key="k")
    assert whole == await sf.run("mail", 1, idempotency_key="k"), "code of the application itself names nobody"


async def test_of_two_callers_with_one_key_one_calls_and_the_other_is_told(sf):
    began, go_on = asyncio.Event(), asyncio.Event()
    calls = 0

    @sf.handler("mail")
    async def mail(_job):
        nonlocal calls
        calls += 1
        began.set()
        await go_on.wait()
        return "sent"

    one, other = (asyncio.create_task(mail.run({}, idempotency_key="k")) for _ in range(2))
    await began.wait()
    [told], [waits] = await asyncio.wait([one, other], return_when=asyncio.FIRST_COMPLETED)
    assert (told.result()["status"], "Do not call again" in told.result()["hint"]) == ("running", True)
    go_on.set()
    assert ((await waits)["result"], calls) == ("sent", 1)
    assert told.result()["operation_id"] == waits.result()["operation_id"]


async def test_a_key_whose_job_is_gone_is_told_and_not_called_again(sf):
    sf.queue("mail", keep_completed=1)
    calls = counting(sf)
    await sf.run("mail", 1, idempotency_key="k")
    sf.clock.advance(3600)
    await Pruner(store_of(sf)).prune()
    with pytest.raises(UnknownJob, match="has ended and was pruned; the handler was not called"):
        await sf.run("mail", 1, idempotency_key="k")
    assert calls == {1: 1}


# --- nothing is bypassed


async def test_fifty_calls_of_a_queue_for_two_run_two_at_a_time(sf):
    sf.queue("mail", concurrency=2)
    running = most = 0
    full, go_on = asyncio.Event(), asyncio.Event()

    @sf.handler("mail")
    async def mail(_job):
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 2:
            full.set()
        await go_on.wait()
        running -= 1

    calls = [asyncio.create_task(mail.run(number)) for number in range(50)]
    await full.wait()
    told, [*under_way] = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    while len(under_way) > 2:
        more, [*under_way] = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
        told |= more
    go_on.set()
    assert [(await each)["status"] for each in under_way] == ["ok", "ok"]
    replies = [each.result() for each in told]
    assert ({reply["status"] for reply in replies}, len(replies), most) == ({"queued"}, 48, 2)
    assert all("It was not started: " in reply["hint"] for reply in replies)
    assert (await drain(sf))["mail"] == 48, "they are ordinary jobs from then on"


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({"concurrency": {"key": "payload.to", "limit": 1}}, "It waits for a place of limit:mail:ada"),
        ({"concurrency": 1}, "It waits for a place of limit:mail: 1 of 1 are taken"),
        ({"rate": "1/h"}, "It waits for rate:mail, which lets the next one start in"),
        ({"gate": lambda: False}, "Its queue's gate has been closed for 0 s: it says no"),
    ],
)
async def test_what_holds_a_worker_back_holds_a_call_back(sf, rules, why):
    sf.queue("mail", **rules)
    entered, go_on = asyncio.Event(), asyncio.Event()

    @sf.handler("mail")
    async def mail(job):
        if job.payload["first"]:
            entered.set()
            await go_on.wait()

    async with sf.worker(["other"]):  # somebody is alive, but does not serve it
        first = asyncio.create_task(mail.run({"to": "ada", "first": True}))
        if "gate" not in rules:
            await entered.wait()
        said = await mail.run({"to": "ada", "first": False})
        go_on.set()
        await first
    assert (said["status"], said["queued_for_retry"], said["queue_reason"]) == ("queued", False, "retry")
    assert why in said["hint"] or "No live worker serves queue mail" in said["hint"]
    job = await job_of(sf, said["operation_id"])
    assert (job.state, job.attempts, job.history) == ("queued", 0, [])


async def test_an_open_gate_is_asked_once_for_many_and_lets_calls_start(sf):
    asked = 0

    async def gate() -> bool:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return True

    sf.queue("mail", gate=gate)
    calls = counting(sf)
    replies = await asyncio.gather(*(sf.run("mail", number) for number in range(10)))
    assert ({reply["status"] for reply in replies}, len(calls), asked) == ({"ok"}, 10, 1)


async def test_a_paused_queue_starts_no_call(sf):
    calls = counting(sf)
    await sf.run("mail", 1)
    await sf.queues.pause("mail")
    said = await sf.run("mail", 2)
    assert (said["status"], "Queue mail is paused" in said["hint"], calls) == ("queued", True, {1: 1})
    await sf.queues.resume("mail")
    await drain(sf)
    assert calls == {1: 1, 2: 1}


async def test_an_open_breaker_starts_no_call(sf):
    sf.queue("mail", breaker={"dependency": "crm", "failures": 1}, attempts=3)

    @sf.handler("mail")
    async def mail(_job):
        raise Transient("down")

    await mail.run(1)
    said = await mail.run(2)
    job = await job_of(sf, said["operation_id"])
    assert (said["status"], job.view, job.parked_on, job.attempts) == ("queued", "parked", "breaker:crm", 0)
    assert "It waits for crm, which failed" in said["hint"]


async def test_a_call_inside_a_handler_is_a_call_like_any_other(sf):
    sf.queue("outer", concurrency=1)
    calls = counting(sf, "inner")

    @sf.handler("outer")
    async def outer(job):
        inner = await sf.run("inner", 1)
        beside = await sf.run("outer", {"again": True}) if job.payload is None else {"status": None}
        return [inner["status"], beside["status"]]

    said = await outer.run()
    assert (said["result"], calls) == (["ok", "queued"], {1: 1})
    async with sf.worker(["outer"]):
        assert (await ended(sf, (await outer.enqueue({})).id)).result == ["ok", None]


async def test_one_callers_context_does_not_reach_anothers_handler(sf):
    asker: contextvars.ContextVar[str] = contextvars.ContextVar("asker", default="nobody")

    @sf.handler("mail")
    async def mail(_job):
        return asker.get()

    asker.set("ada")
    assert [(await mail.run())["result"] for _ in range(2)] == ["nobody", "nobody"]


# --- no handler here


async def test_without_the_handler_it_is_queued_and_waited_for(disk, url):
    async with Standfast(url) as elsewhere:
        counting(elsewhere, "mail", name="sender")
        async with elsewhere.worker():
            said = await disk.run("sender", 1, timeout=NOBODY_WAITS)
            assert (said["status"], said["result"]) == ("ok", {"got": 1})
        late = await disk.run("mail", 2, timeout=0.05)
    assert (late["status"], (await job_of(disk, late["operation_id"])).handler) == ("queued", "sender")
    assert "No live worker serves queue mail" in late["hint"]


@pytest.mark.parametrize("verb", ["run", "submit"])
async def test_a_handler_that_no_process_ever_published_is_refused_with_the_nearest_names(sf, verb):
    sf.handler("mail")(lambda _job: None)
    await publish_elsewhere(sf, "bills", "pay")
    await sf.enqueue("bills", 1, handler="pya")  # a job is no publication
    call = getattr(sf, verb)
    for name, near in {"bills/pya": ("bills/pay",), "pya": ("bills/pay",), "mial": ("mail",), "zzz": ()}.items():
        with pytest.raises(UnknownHandler, match=f"no process ever published a handler '{name}'; nothing was") as told:
            await call(name, {}, idempotency_key="k")
        assert told.value.nearest == near
    assert "did you mean bills/pay?" in str(await refused(call("bills/pya")))
    assert "start the process that has it, or correct the name" in str(await refused(call("zzz")))
    assert [job.handler for job in await sf.jobs()] == ["pya"]


async def refused(call: Any) -> UnknownHandler:
    with pytest.raises(UnknownHandler) as told:
        await call
    return told.value


async def test_a_handler_that_another_process_published_is_queued_for_it(sf):
    await publish_elsewhere(sf, "bills", "pay")
    said = await sf.run("pay", {}, timeout=0.01)
    job = await job_of(sf, said["operation_id"])
    assert (said["status"], job.queue, job.handler) == ("queued", "bills", "pay")


async def test_a_call_that_failed_elsewhere_is_taken_over_for_a_handler_that_is_not_there_yet(sf):
    said = await sf.hand_over("bills/pay", {}, "it is down")
    assert (await job_of(sf, said["operation_id"])).queue == "bills"


async def test_a_reply_names_its_job_wherever_an_id_does(sf):
    @sf.handler("mail")
    async def mail(_job):
        raise Permanent("no")

    reply = await sf.run("mail")
    job = await job_of(sf, reply["operation_id"])
    assert await sf.status(reply) == job
    assert await sf.wait(reply, 1) == job
    assert await sf.result(reply) is None
    assert await sf.explain(reply) == await sf.explain(job.id)
    assert (await sf.dead_letters.get(reply)).id == job.id
    await sf.dead_letters.quarantine(reply, by="ann", reason="theirs")
    assert [each["kind"] for each in await sf.audit.entries(job=reply)] == ["quarantine"]
    assert [each["job"] for each in await sf.audit.last(5, job=reply)] == [job.id]
    assert (await sf.retry(reply))["operation_id"] == job.id
    assert (await sf.cancel(reply)).id == job.id
    for refused in (sf.dead_letters.discard(reply, by="ann", reason="gone"), sf.consent.answer(reply, by="ann")):
        with pytest.raises(NotALetter, match=f"^job {job.id} "):
            await refused
    with pytest.raises(ConfigurationError, match=r"pass receipt\.id, or a Reply"):
        await sf.status({"id": job.id})


# --- begin


async def test_a_call_that_is_begun_can_be_waited_for_in_pieces(sf):
    go_on = asyncio.Event()

    @sf.handler("mail")
    async def mail(_job):
        await go_on.wait()
        return "sent"

    call = await sf.begin(mail, {})
    assert await call.reply_within(0.01) is None
    assert (await job_of(sf, call.id)).state == "running", "waiting less cuts nothing off"
    go_on.set()
    assert (await call.reply_within(NOBODY_WAITS))["result"] == "sent"
    assert (await call.reply())["result"] == "sent"


async def test_loops_have_callers_of_their_own_which_go_with_them(disk):
    counting(disk)
    assert (await disk.run("mail", 1))["status"] == "ok"
    for number in range(3):
        said = await asyncio.to_thread(lambda: asyncio.run(disk.run("mail", number)))  # noqa: B023 - awaited here
        assert said["status"] == "ok"
    assert await seen(lambda: live_callers(disk, at_least=2))
    assert listeners(disk) == 2, "this loop's, and the last one's, which nobody has missed yet"


async def test_a_call_whose_answer_comes_too_late_is_not_started(sf, monkeypatch):
    calls = counting(sf)

    async def late(_calls: Any, called: Any) -> Any:
        found = await called
        sf.clock.advance(85)
        return found

    between(store_of(sf), scripts.call, late, monkeypatch.setattr)
    said = await sf.run("mail", 1)
    job = await job_of(sf, said["operation_id"])
    assert (said["status"], job.attempts, job.deferrals, calls) == ("queued", 0, 1, {})
