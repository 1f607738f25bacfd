"""The stories of the agents' designs, by the clock: a full quota, a bridge that is away for a while and for good."""

from __future__ import annotations

from standfast import Transient, adaptive
from standfast.testing import drain
from standfast.testing.kit import InMemory
from tests.waiting import job_of

MINUTE = 60.0


async def test_a_quota_at_ninety_percent_puts_the_call_off_and_spends_nothing(app: InMemory) -> None:
    """The agent is told that it is queued and why; once there is room again it runs by itself."""
    quota = {"used": 0.9}
    app.queue("llm", gate=lambda: quota["used"] < 0.9)
    asked: list[str] = []

    @app.handler("llm")
    async def summarise(job):
        asked.append(job.payload["text"])
        return {"summary": "short"}

    reply = await app.run("llm", {"text": "long"}, session="planner")
    assert (reply["status"], asked) == ("queued", [])
    assert "not started" in reply["hint"]
    put_off = await job_of(app, reply["operation_id"])
    assert (put_off.view, put_off.attempts) == ("parked", 0)
    quota["used"] = 0.4
    app.clock.advance(5 * MINUTE)
    await drain(app)
    done = await job_of(app, reply["operation_id"])
    assert (done.state, done.attempts, asked) == ("completed", 1, ["long"])


async def test_a_bridge_that_is_away_for_twenty_minutes_loses_no_note(app: InMemory) -> None:
    """The notes wait in the queue, and the session that wrote them finds them done in its inbox."""
    back_at = app.clock.elapsed() + 20 * MINUTE
    app.queue("notes", attempts=20, backoff=adaptive())
    written: list[str] = []

    @app.handler("notes")
    async def write(job):
        if app.clock.elapsed() < back_at:
            raise Transient("the bridge does not answer", error_kind="bridge_away")
        written.append(job.payload)

    replies = [await app.run("notes", name, session="diary") for name in ("one", "two", "three")]
    assert {(each["status"], each["queued_for_retry"]) for each in replies} == {("queued", True)}
    assert all("not done" in each["hint"] for each in replies)
    while app.clock.elapsed() < back_at + 3 * MINUTE:
        app.clock.advance(10)
        await drain(app)
    assert sorted(written) == ["one", "three", "two"]
    messages = await app.inbox.list("diary")
    assert {message["kind"] for message in messages} == {"retry_success"}
    assert sorted(message["job_id"] for message in messages) == sorted(each["operation_id"] for each in replies)
    assert await app.inbox.list("diary") == []  # good news is read by being listed
    assert await app.inbox.list("somebody-else", unread=False) == []


async def test_a_bridge_that_stays_away_ends_with_a_message_somebody_must_act_upon(app: InMemory) -> None:
    """It tells every attempt, and stays until it is acknowledged; mended and retried, the note is written."""
    app.queue("notes", attempts=2, backoff=adaptive())
    mended = False

    @app.handler("notes")
    async def write(_job):
        if not mended:
            raise Transient("the bridge does not answer", error_kind="bridge_away")

    reply = await app.run("notes", "one", session="diary")
    app.clock.advance(5 * MINUTE)
    await drain(app)
    for _ in range(2):  # listing does not settle it
        [message] = await app.inbox.list("diary")
    assert (message["kind"], message["job_id"]) == ("retry_exhausted", reply["operation_id"])
    assert [line["error_kind"] for line in message["history"]] == ["bridge_away", "bridge_away"]
    mended = True
    assert (await app.retry(reply["operation_id"]))["status"] == "queued"
    await drain(app)
    await app.inbox.ack(message["id"], session="diary")
    assert [each["kind"] for each in await app.inbox.list("diary")] == ["retry_success"]


async def test_a_disabled_capability_comes_back_by_itself(app: InMemory) -> None:
    """While its probe says no, nothing is tried; with the yes it goes on, and the next reply says what happened."""
    up = False

    @app.handler("mail", requires=[lambda: up])
    async def send(_job):
        if not up:
            raise Transient("the relay is away")
        return "sent"

    waiting = await app.submit("mail", {"to": "ann"}, session="planner")
    await drain(app)
    put_off = await job_of(app, waiting["operation_id"])
    assert (put_off.state, put_off.attempts) == ("queued", 0)
    assert "mail" in " ".join((await app.health())["issues"])
    insisted = await app.run("mail", {"to": "bob"}, session="planner")  # a last resort: its own error decides
    assert (insisted["status"], insisted["queued_for_retry"]) == ("queued", True)
    up = True
    app.clock.advance(MINUTE)
    reply = await app.run("mail", {"to": "eve"}, session="planner")
    assert (reply["status"], reply.get("registry_auto_recovered")) == ("ok", True)
    app.clock.advance(5 * MINUTE)
    await drain(app)
    done = [await job_of(app, each["operation_id"]) for each in (waiting, insisted)]
    assert [(job.state, job.result) for job in done] == [("completed", "sent")] * 2
    assert "registry_auto_recovered" not in await app.run("mail", {"to": "dan"})


async def test_a_workflow_whose_second_step_is_exhausted_goes_on_once_that_is_replayed(app: InMemory) -> None:
    """What is behind it waits and says for what; the replay resumes the workflow where it stopped."""
    mended = False
    app.queue("fetch", attempts=2, backoff=adaptive())
    app.handler("plan")(lambda _job: {"page": 7})

    @app.handler("fetch")
    async def fetch(job):
        if not mended:
            raise Transient("the bridge does not answer")
        return f"page {job.parents['plan']['page']}"

    app.handler("write")(lambda job: job.parents["fetch"].upper())
    builder = app.workflow("digest")
    planned = builder.step("plan", "plan")
    fetched = builder.step("fetch", "fetch", after=[planned])
    builder.step("write", "write", after=[fetched])
    workflow = await builder.start(session="planner")
    await drain(app)
    held_up = await app.workflows.get(workflow)
    assert (held_up["state"], held_up["steps"]["fetch"]["view"]) == ("running", "retry_pending")
    app.clock.advance(5 * MINUTE)
    await drain(app)
    stuck = await app.workflows.get(workflow)
    assert (stuck["state"], stuck["steps"]["fetch"]["state"], stuck["steps"]["write"]["state"]) == (
        *("stuck", "dead", "waiting"),
    )
    assert "fetch" in await app.explain(stuck["steps"]["write"]["job_id"])
    assert [message["kind"] for message in await app.inbox.list("planner")] == ["retry_exhausted"]
    mended = True
    assert (await app.retry(stuck["steps"]["fetch"]["job_id"]))["status"] == "queued"
    await drain(app)
    done = await app.workflows.get(workflow)
    assert (done["state"], done["steps"]["write"]["result"]) == ("completed", "PAGE 7")
