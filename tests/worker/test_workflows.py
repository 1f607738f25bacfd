"""Workflows as applications use them: written down, started, run, looked at, put right."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from standfast import (
    Backpressure,
    Cancel,
    ConfigurationError,
    IdempotencyConflict,
    PayloadRejected,
    Permanent,
    Standfast,
    Transient,
    current_session,
)
from standfast.errors import UnknownRequest
from standfast.testing import drain, memory
from standfast.testing.kit import InMemory
from standfast.wings.promote.verbs import promote

pytestmark = pytest.mark.anyio


@pytest.fixture
def ways() -> dict[str, list[Any]]:
    """Give what steps do, by name, one way for each attempt; others echo their names and parents."""
    return {}


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def work(sf: InMemory, ways: dict[str, list[Any]], ran: list[str]) -> Any:
    sf.queue("work", attempts=2, backoff="none")

    @sf.handler("work")
    async def handler(job: Any) -> Any:
        ran.append(job.payload)
        way = ways[job.payload].pop(0) if ways.get(job.payload) else None
        if isinstance(way, Exception):
            raise way
        return way or {"step": job.payload, "after": sorted(job.parents)}

    return handler


def diamond(sf: Standfast, work: Any) -> Any:
    flow = sf.workflow("nightly")
    a = flow.step("a", work, "a")
    b = flow.step("b", work, "b", after=a)
    flow.step("c", "work", "c", after=["a"])
    flow.step("d", work, "d", after=[b, "c"])
    return flow


async def test_a_workflow_runs_in_its_order_and_hands_results_on(sf, work, ran):
    flow = await diamond(sf, work).start()
    before = await sf.workflows.get(flow)
    assert (before["name"], before["state"], list(before["steps"])) == ("nightly", "running", ["a", "b", "c", "d"])
    assert [step["view"] for step in before["steps"].values()] == ["queued", "waiting", "waiting", "waiting"]
    await drain(sf)
    after = await sf.workflows.get(flow)
    assert (after["state"], after["completed"], after["finished_at"] is not None) == ("completed", 4, True)
    assert after["steps"]["d"]["result"] == {"step": "d", "after": ["b", "c"]}
    assert after["steps"]["d"]["after"] == ["b", "c"]
    assert (ran[0], ran[-1], len(ran)) == ("a", "d", 4)
    job = await sf.status(after["steps"]["d"]["job_id"])
    assert (job.workflow, job.queue_reason) == (flow, "workflow_step")


async def test_a_step_whose_attempts_are_used_up_sticks_the_workflow_and_a_replay_resumes_it(sf, work, ways, ran):
    ways["b"] = [Transient("down"), Transient("down"), {"at": "last"}]
    flow = await diamond(sf, work).start()
    await drain(sf)
    stuck = await sf.workflows.get(flow)
    assert (stuck["state"], stuck["steps"]["b"]["reason"], stuck["steps"]["d"]["state"]) == (
        "stuck",
        "max_attempts",
        "waiting",
    )
    why = "waits for step b, which died: max_attempts"
    assert stuck["steps"]["d"]["reason"].startswith(why)
    waiting = await sf.status(stuck["steps"]["d"]["job_id"])
    assert waiting.reason.startswith(why)
    assert (await sf.explain(waiting.id)).startswith(f"It {why}")
    issue = f"workflow nightly is stuck: 1 step stopped, 2 not done; see standfast workflow show {flow}"
    assert issue in (await sf.health())["issues"]
    [letter] = await sf.dead_letters.list()
    assert letter.workflow == flow
    await sf.dead_letters.replay(letter.id, by="ann")
    await drain(sf)
    assert (await sf.workflows.get(flow))["state"] == "completed"
    assert [name for name in ran if name == "d"] == ["d"]


async def test_resolving_a_step_by_word_feeds_its_children(sf, work, ways):
    ways["b"] = [Permanent("no")]
    flow = await diamond(sf, work).start()
    await drain(sf)
    [letter] = await sf.dead_letters.list()
    await sf.dead_letters.resolve(letter.id, by="ann", reason="done by hand", result={"by": "hand"})
    await drain(sf)
    found = await sf.workflows.get(flow)
    assert (found["state"], found["steps"]["b"]["result"]) == ("completed", {"by": "hand"})


async def test_discarding_a_step_cancels_what_is_behind_it(sf, work, ways):
    ways["b"] = [Permanent("no")]
    flow = await diamond(sf, work).start()
    await drain(sf)
    [letter] = await sf.dead_letters.list()
    await sf.dead_letters.discard(letter.id, by="ann", reason="unwanted")
    found = await sf.workflows.get(flow)
    states = {name: step["state"] for name, step in found["steps"].items()}
    assert states == {"a": "completed", "b": "cancelled", "c": "completed", "d": "cancelled"}
    assert (found["state"], found["steps"]["d"]["reason"]) == ("cancelled", "step b was cancelled")


async def test_a_step_that_returns_cancel_ends_what_is_behind_it(sf, work, ways):
    ways["a"] = [Cancel("nothing to do")]
    flow = await diamond(sf, work).start()
    await drain(sf)
    assert (await sf.workflows.get(flow))["state"] == "cancelled"


async def test_cancelling_a_workflow_ends_its_steps(sf, work):
    flow = await diamond(sf, work).start()
    answer = await sf.workflows.cancel(flow)
    assert (answer["state"], answer["cancelled"]) == ("cancelled", 4)
    assert await drain(sf) == {}


async def test_a_running_step_of_a_cancelled_workflow_is_asked_to_stop(in_file):
    entered, stopped = asyncio.Event(), asyncio.Event()

    @in_file.handler("work")  # type: ignore[untyped-decorator]
    async def work(job: Any) -> None:  # noqa: ARG001 - it only waits
        entered.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    flow = in_file.workflow("long")
    flow.step("b", work, after=flow.step("a", work))
    async with in_file.worker():
        started = await flow.start()
        await asyncio.wait_for(entered.wait(), 10)
        assert (await in_file.workflows.cancel(started))["steps"]["a"]["state"] == "running"
        await asyncio.wait_for(stopped.wait(), 10)
        while (await in_file.workflows.get(started))["state"] != "cancelled":  # noqa: ASYNC110 - the end is written then
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([], "at least one step"),
        ([("a", ["b"]), ("b", ["a"])], "wait for each other: "),
        ([("a", ["nobody"])], "no step is called so"),
        ([("a", []), ("a", [])], "two steps are called 'a'"),
    ],
)
async def test_what_is_no_graph_is_refused_at_the_start(sf, steps, said):
    flow = sf.workflow("wrong")
    for name, after in steps:
        flow.step(name, "work", after=after)
    with pytest.raises(ConfigurationError, match=said):
        await flow.start()
    assert await sf.workflows.list() == []


async def test_a_mistyped_option_or_a_foreign_step_is_refused_at_once(sf, work):
    flow, other = sf.workflow("one"), sf.workflow("other")
    with pytest.raises(ConfigurationError, match="a step takes no thread_key"):
        flow.step("a", work, thread_key="t")
    with pytest.raises(ConfigurationError, match="prioritiy"):
        flow.step("a", work, prioritiy=3)
    with pytest.raises(ConfigurationError, match="a step of another workflow"):
        flow.step("a", work, after=other.step("x", work))
    with pytest.raises(ConfigurationError, match="takes steps or their names, not 3"):
        flow.step("a", work, after=[3])
    with pytest.raises(ConfigurationError, match="works for queue 'work', not 'mail'"):
        flow.step("a", work, queue="mail")
    with pytest.raises(PayloadRejected):
        flow.step("a", work, object())
    with pytest.raises(ConfigurationError, match="a workflow's name"):
        sf.workflow("")


async def test_a_handler_is_found_by_its_name(sf):
    sf.handler("mail", name="send")(lambda _job: "sent")
    sf.handler("mail", name="twice")(lambda _job: None)
    sf.handler("post", name="twice")(lambda _job: None)
    flow = sf.workflow("mixed")
    flow.step("a", "send")
    flow.step("b", "elsewhere")
    flow.step("c", "elsewhere", queue="far")
    with pytest.raises(ConfigurationError, match=r"several queues have a handler 'twice' \(mail, post\)"):
        flow.step("d", "twice")
    found = await sf.workflows.get(await flow.start())
    assert [(step["queue"], step["handler"]) for step in found["steps"].values()] == [
        ("mail", "send"),
        ("elsewhere", "elsewhere"),
        ("far", "elsewhere"),
    ]


async def test_the_same_key_starts_a_workflow_once(sf, work, ran):
    first = await diamond(sf, work).start(idempotency_key="k")
    assert await diamond(sf, work).start(idempotency_key="k") == first
    other = diamond(sf, work)
    other.step("e", work, "e")
    with pytest.raises(IdempotencyConflict, match="with other steps; nothing was written") as refused:
        await other.start(idempotency_key="k")
    assert refused.value.job_id == first
    await drain(sf)
    assert len(ran) == 4
    again = diamond(sf, work)
    assert await again.start() != await again.start()


async def test_a_payload_is_taken_as_it_was_when_the_step_was_added(sf):
    payload, flow = {"n": 1}, sf.workflow("loop")
    seen = []
    sf.handler("seen")(lambda job: seen.append(job.payload))
    for n in range(3):
        payload["n"] = n
        flow.step(str(n), "seen", payload)
    await flow.start()
    await drain(sf)
    assert sorted(each["n"] for each in seen) == [0, 1, 2]


async def test_steps_run_for_the_session_the_workflow_was_started_for(sf):
    seen = []
    sf.handler("seen")(lambda job: seen.append((job.payload, job.session, job.requester, current_session())))
    flow = sf.workflow("agents")
    flow.step("a", "seen", "a")
    flow.step("b", "seen", "b", session="other")
    flow.step("c", "seen", "c", requester="carl", after="a")
    await flow.start(session="s1")
    await drain(sf)
    assert seen[0] == ("a", "s1", "s1", "s1")
    assert seen[1] == ("b", "other", "other", "other")
    assert (seen[2][0], seen[2][2]) == ("c", "carl")


async def test_a_full_queue_takes_nothing_of_a_workflow(sf):
    sf.queue("work", max_depth=1)
    flow = sf.workflow("wide")
    for n in range(2):
        flow.step(str(n), "work")
    with pytest.raises(Backpressure, match="no room for the first steps"):
        await flow.start()
    assert await sf.workflows.list() == []


async def test_what_a_step_did_not_come_after_it_is_not_handed(sf):
    caught = []

    @sf.handler("work")  # type: ignore[untyped-decorator]
    async def work(job: Any) -> None:
        if job.payload == "b":
            assert "a" in job.parents
            assert len(job.parents) == 1
            try:
                job.parents["z"]
            except KeyError as error:
                caught.append(str(error))

    flow = sf.workflow("named")
    flow.step("b", work, "b", after=flow.step("a", work))
    await flow.start()
    await drain(sf)
    assert "comes after a, and not after 'z'" in caught[0]


async def test_results_that_are_too_big_to_bring_are_read_when_asked_for(sf, monkeypatch):
    monkeypatch.setattr("standfast.wings.workflows.scripts.LARGEST_HAND_OVER", 100)
    seen: list[int] = []

    @sf.handler("work")  # type: ignore[untyped-decorator]
    async def work(job: Any) -> Any:
        seen.extend(len(result) for result in job.parents.values())
        return "x" * 1000

    flow = sf.workflow("big")
    flow.step("b", work, after=flow.step("a", work))
    await flow.start()
    await drain(sf)
    assert seen == [1000]


async def test_a_result_that_is_too_big_to_show_is_told_as_such(sf, monkeypatch):
    monkeypatch.setattr("standfast.wings.workflows.graphs.LARGEST_SHOWN", 100)
    sf.handler("work")(lambda _job: "x" * 1000)
    flow = sf.workflow("big")
    flow.step("a", "work")
    started = await flow.start()
    await drain(sf)
    step = (await sf.workflows.get(started))["steps"]["a"]
    assert (step["result"], step["result_truncated"]) == (None, True)
    assert await sf.result(step["job_id"]) == "x" * 1000


async def test_an_unknown_workflow_is_said_to_be_one(sf):
    with pytest.raises(UnknownRequest, match="no workflow has the id 'nope'"):
        await sf.workflows.get("nope")
    with pytest.raises(UnknownRequest):
        await sf.workflows.cancel("nope")


async def test_workflows_are_listed_by_state(sf, work, ways):
    ways["a"] = [Permanent("no")]
    stuck = await diamond(sf, work).start()
    await drain(sf)
    done = await diamond(sf, work).start()
    await drain(sf)
    assert [each["id"] for each in await sf.workflows.list()] == [done, stuck]
    assert [each["id"] for each in await sf.workflows.list("stuck")] == [stuck]
    assert [each["id"] for each in await sf.workflows.list(limit=1, cursor=done)] == [stuck]
    with pytest.raises(ConfigurationError):
        await sf.workflows.list("lost")


async def test_a_retry_of_a_waiting_step_is_not_told_as_done(sf, work):
    flow = await diamond(sf, work).start()
    job = (await sf.workflows.get(flow))["steps"]["d"]["job_id"]
    reply = await sf.retry(job)
    assert (reply["status"], reply["queue_reason"]) == ("queued", "workflow_step")
    assert (await sf.status(job)).state == "waiting"


async def test_notices_name_the_workflow(sf, work):
    flow = await diamond(sf, work).start()
    await drain(sf)
    told = []
    async for notice in sf.subscribe(after=0):
        told += [notice] if notice.kind.startswith("workflow_") else []
        if notice.kind == "workflow_completed":
            break
    assert [(notice.kind, notice.job, notice.data) for notice in told] == [
        ("workflow_started", None, {"workflow": flow}),
        ("workflow_completed", None, {"workflow": flow}),
    ]


async def test_a_promoted_workflow_goes_on_where_it_was(in_file, path, postgres_url):
    home = Standfast(postgres_url)
    in_file.handler("work")(_echo)
    home.handler("later")(_echo)
    started = await _moving(in_file).start(idempotency_key="k")
    await drain(in_file)
    await in_file.close()
    await asyncio.to_thread(promote, path, postgres_url)
    async with home:
        assert [each["completed"] for each in await home.workflows.list()] == [1]
        await drain(home)
        found = await home.workflows.get(started)
        assert (found["state"], found["steps"]["b"]["result"]) == ("completed", {"a": {}})
        assert await _moving(home).start(idempotency_key="k") == started


def _moving(sf: Standfast) -> Any:
    flow = sf.workflow("moving")
    flow.step("b", "later", "b", after=flow.step("a", "work", "a"))
    return flow


@pytest.mark.parametrize("steps", [100, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("shape", ["chain", "wide", "grid"])
async def test_large_graphs_run_to_their_ends(shape, steps):
    sf = memory()
    sf.handler("work")(_nothing)
    flow = sf.workflow(shape)
    for n in range(steps):
        above = {"chain": [n - 1], "wide": [0], "grid": [n - 30, n - 29]}[shape]
        before = range(1, n) if (shape, n) == ("wide", steps - 1) else above
        flow.step(str(n), "work", after=[str(each) for each in before if 0 <= each < n])
    started = await flow.start()
    await drain(sf)
    found = await sf.workflows.get(started)
    assert (found["state"], found["completed"]) == ("completed", steps)
    await sf.close()


async def _echo(job: Any) -> dict[str, Any]:
    return dict(job.parents)


async def _nothing(job: Any) -> None:
    """Do nothing."""
