"""Steps: called once, kept as what they are, told apart by their arguments; and progress is not counted as failure."""

from __future__ import annotations

import dataclasses
import sys
import time
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import pydantic
import pytest

from standfast import Effect, Found, Permanent, Snooze, Transient, Uncertain, ValueNotKept, no_backoff
from standfast.outcome import LARGEST_RESULT
from standfast.testing import drain
from standfast.wings.records import reads
from tests.waiting import effects_of, failure_of, job_of
from tests.worker.inside import store_of


@pytest.fixture(autouse=True)
def _rules(sf):
    sf.queue("work", backoff=no_backoff(), attempts=3)


async def done(sf, payload: Any = None) -> Any:
    receipt = await sf.enqueue("work", payload)
    await drain(sf)
    return await job_of(sf, receipt.id)


@dataclasses.dataclass
class Ticket:
    id: int
    at: datetime


class Page(msgspec.Struct):
    text: str
    tickets: list[Ticket]


class Answer(pydantic.BaseModel):
    words: str
    score: float = 0.5


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ticket() -> Ticket:
    return Ticket(7, NOON)


async def page() -> Page:
    return Page("hello", [Ticket(7, NOON)])


def answer() -> Answer:
    return Answer(words="yes")


def answers() -> dict[str, list[Answer]]:
    return {"all": [Answer(words="yes")]}


def untold():
    return [Ticket(7, NOON)]


def mistaken() -> int:
    return "seven"  # type: ignore[return-value]


PLAIN = [{"id": 7, "at": "2026-01-01T12:00:00Z"}]


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (ticket, Ticket(7, NOON)),
        (page, Page("hello", [Ticket(7, NOON)])),
        (answer, Answer(words="yes")),
        (answers, {"all": [Answer(words="yes")]}),
        (untold, PLAIN),
        (mistaken, "seven"),
        (lambda: (1, 2), [1, 2]),
        (lambda: None, None),
    ],
)
async def test_a_value_comes_back_as_what_its_function_says_it_is_on_every_attempt(sf, function, expected, declared):
    got, calls = [], []

    @sf.handler("work", effects=[Effect("x")])
    async def work(job):
        def call():
            calls.append(job.attempt)
            return function()

        call.__annotations__ = function.__annotations__
        got.append(await (job.once if declared else job.step)("x", call))
        if job.attempt == 1:
            raise Transient("once more")

    job = await done(sf)
    assert (job.state, got, calls) == ("completed", [expected, expected], [1])


async def test_a_result_with_typed_values_inside_reaches_the_caller(sf):
    @sf.handler("work")
    async def work(job):
        return {"page": await job.step("read", page)}

    job = await done(sf)
    assert (job.result, job.warning) == ({"page": {"text": "hello", "tickets": PLAIN}}, None)


async def test_steps_need_no_declaration_and_work_in_plain_functions(sf):
    calls = []

    def add(one: int, other: int = 0) -> int:
        calls.append((one, other))
        return one + other

    @sf.handler("work")
    def work(job):
        total = job.step_sync("add up, please", add, 1, other=2)
        if job.attempt == 1:
            raise Transient("once more")
        return total

    job = await done(sf)
    assert (job.result, calls) == (3, [(1, 2)])
    assert effects_of(job) == [{"name": "add up, please", "verdict": "verified", "receipt": 3}]


@pytest.mark.parametrize("call", ["step", "once"])
async def test_an_awaited_step_in_a_plain_function_is_an_error_with_what_to_write(sf, call):
    @sf.handler("work", effects=[Effect("x")])
    def work(job):
        return getattr(job, call)("x", int)

    job = await done(sf)
    assert f"write job.{call}_sync" in failure_of(job).message
    assert job.effects == []


@pytest.mark.parametrize("name", ["", "x" * 201, "two\nlines", 7])
async def test_a_name_that_cannot_be_shown_is_refused(sf, name):
    @sf.handler("work")
    async def work(job):
        await job.step(name, int)

    assert "a step is named by" in failure_of(await done(sf)).message


# --- what cannot be kept


class Odd(pydantic.BaseModel):
    @pydantic.model_serializer
    def refuse(self) -> dict[str, Any]:
        raise RuntimeError("no JSON of me")


UNKEEPABLE = [
    (object, "is of type object"),
    (lambda: float("nan"), "contains nan"),
    (lambda: {"deep": [float("inf")]}, "contains inf"),
    (lambda: "x" * LARGEST_RESULT, "bytes where"),
    (lambda: {1: "x"}, "a key is of type int"),
    (lambda: "\ud800", "not Unicode"),
    (lambda: 2**70, "over 64 bits"),
    (Odd, "no JSON of me"),
]


@pytest.mark.parametrize(("function", "words"), UNKEEPABLE, ids=[words for _, words in UNKEEPABLE])
async def test_an_effect_whose_value_cannot_be_kept_raises_and_is_never_repeated_nor_none(sf, function, words):
    calls, met = [], []

    @sf.handler("work", effects=[Effect("x")])
    async def work(job):
        def call():
            calls.append(job.attempt)
            return function()

        try:
            met.append(await job.once("x", call))
        except ValueNotKept as error:
            met.append(str(error))
            raise Transient("a handler that tries again by itself") from error

    job = await done(sf)
    assert (job.state, calls, len(met)) == ("dead", [1], 4), "that it is done is progress"
    assert words in met[0]
    assert "could not be kept" in met[3]
    assert effects_of(job) == [{"name": "x", "verdict": "verified", "receipt": None}]


async def test_a_value_that_cannot_be_kept_is_a_letter_that_says_what_to_do(sf):
    @sf.handler("work", effects=[Effect("x")])
    def work(job):
        job.once_sync("x", object)

    job = await done(sf)
    assert (job.state, job.reason, job.attempts) == ("dead", "value_not_kept", 1)
    assert "return or record what names it" in failure_of(job).message
    assert "Found" in failure_of(job).advice


async def test_a_receipt_that_cannot_be_recorded_does_not_undo_the_effect(sf):
    calls = []

    @sf.handler("work", effects=[Effect("x")])
    async def work(job):
        async with job.effect("x") as e:
            if not e.done:
                calls.append(job.attempt)
                e.record(object())
        return "went on"

    job = await done(sf)
    assert job.reason == "value_not_kept"
    await sf.dead_letters.replay(job.id, by="ann", reason="the block looks at e.done")
    await drain(sf)
    assert ((await job_of(sf, job.id)).result, calls) == ("went on", [1])


async def test_a_look_can_bring_the_value_that_could_not_be_kept(sf):
    calls = []

    @sf.handler("work", effects=[Effect("x", lambda _job: Found({"id": 7}))])
    async def work(job):
        def call():
            calls.append(job.attempt)
            return object()

        return await job.once("x", call)

    job = await done(sf)
    await sf.dead_letters.replay(job.id, by="ann", reason="verify gives the receipt now")
    await drain(sf)
    assert ((await job_of(sf, job.id)).result, calls) == ({"id": 7}, [1])


async def test_a_step_whose_value_could_not_be_kept_runs_again_when_a_person_replays_it(sf):
    values: list[Any] = [7, object()]

    @sf.handler("work")
    async def work(job):
        return await job.step("x", values.pop)

    job = await done(sf)
    assert (job.reason, len(values)) == ("value_not_kept", 1)
    await sf.dead_letters.replay(job.id, by="ann", reason="it returns an id now")
    await drain(sf)
    assert (await job_of(sf, job.id)).result == 7


async def test_one_mebibyte_is_kept(sf):
    big = "x" * (LARGEST_RESULT - 2)

    @sf.handler("work")
    async def work(job):
        kept = await job.step("big", lambda: big)
        if job.attempt == 1:
            raise Transient("once more")
        return kept == big

    assert (await done(sf)).result is True


# --- told apart by their arguments


async def test_the_same_name_with_other_arguments_is_another_call_and_explain_says_so(sf):
    sent: list[str] = []

    @sf.handler("work", effects=[Effect("mail")])
    async def work(job):
        for to in ("ann", "bob"):
            await job.once("mail", sent.append, to)
        for number in (1, 2, 3):
            await job.step("count", partial(abs, number))
        if job.attempt == 1:
            raise Transient("once more")

    job = await done(sf)
    assert (job.state, sent) == ("completed", ["ann", "bob"])
    assert [each["name"] for each in job.effects] == ["count"] * 3 + ["mail"] * 2
    assert len({each["arguments"] for each in job.effects}) == 5
    said = await sf.explain(job.id)
    assert "'count' with 3 different arguments, 'mail' with 2 different arguments" in said


@pytest.mark.parametrize(
    "arguments",
    [
        (1, "a", None, [1.5], {"b": 1, "a": 2}),
        (Ticket(7, NOON), Page("x", []), Answer(words="x")),
        (object(), sys.stdout, ValueError("x"), print),
        ({2, 1}, b"x", (1, 2), 2**80, float("nan")),
    ],
)
async def test_a_call_is_known_again_in_another_attempt_by_what_its_arguments_are(sf, arguments):
    calls = []

    @sf.handler("work")
    async def work(job):
        await job.step("x", lambda *args, **kwargs: calls.append((args, kwargs)), *arguments, key=arguments[0])
        if job.attempt == 1:
            raise Transient("once more")

    assert (await done(sf)).state == "completed"
    assert len(calls) == 1


@pytest.mark.parametrize("mode", ["verify_first", "manual"])
async def test_an_effect_that_must_not_be_doubled_refuses_other_arguments_after_a_repeat(sf, mode):
    """A present time among the arguments would make every attempt another call."""
    calls = []

    @sf.handler("work", replay=mode, effects=[Effect("charge", lambda _job: True)])
    async def work(job):
        def charge(at):
            calls.append(at)
            raise Uncertain("cut off")

        await job.once("charge", charge, job.attempt)

    job = await done(sf)
    if mode == "manual":
        await sf.dead_letters.replay(job.id, by="ann", reason="go on")
        await drain(sf)
    job = await job_of(sf, job.id)
    assert (job.state, job.reason, calls) == ("dead", "arguments_changed", [1])
    assert "the same arguments on every attempt" in failure_of(job).message


async def test_a_list_that_is_worked_through_goes_on_where_it_stopped_in_every_mode(sf):
    sent: list[str] = []

    @sf.handler("work", replay="verify_first", effects=[Effect("mail", lambda _job: False)])
    async def work(job):
        for to in ("ann", "bob", "cyd"):
            await job.once("mail", sent.append, to)
            if len(sent) == job.attempt < 3:
                raise ConnectionError("away")

    assert ((await done(sf)).state, sent) == ("completed", ["ann", "bob", "cyd"])


async def test_an_effect_with_several_arguments_that_was_cut_off_cannot_be_told_by_its_check(sf):
    @sf.handler("work", replay="verify_first", effects=[Effect("mail", lambda _job: True)])
    async def work(job):
        await job.once("mail", str, "ann")

        def cut(to):
            raise TimeoutError(to)

        await job.once("mail", cut, "bob")

    job = await done(sf)
    assert (job.state, "cannot tell apart" in failure_of(job).message) == ("held", True)


# --- progress


def steps_that_fail_after_each(sf, number: int, error: type[Exception] = ConnectionError) -> list[int]:
    calls: list[int] = []

    @sf.handler("work")
    async def work(job):
        for n in range(number):
            fresh = len(calls) <= n
            await job.step(f"step {n}", calls.append, n)
            if fresh:
                raise error(f"after step {n}")
        return "all"

    return calls


@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("error", [ConnectionError, Transient, TimeoutError, RuntimeError])
async def test_twenty_steps_that_fail_once_after_each_are_done_with_three_attempts_or_one(sf, error, attempts):
    sf.queue("work", backoff=no_backoff(), attempts=attempts)
    calls = steps_that_fail_after_each(sf, 20, error)
    job = await done(sf)
    assert (job.state, job.result, calls) == ("completed", "all", list(range(20)))
    assert (job.attempts, job.max_attempts) == (21, 20 + attempts)


async def test_without_progress_it_is_dead_after_three_attempts(sf):
    calls = []

    @sf.handler("work")
    async def work(job):
        await job.step("first", int)
        calls.append(job.attempt)
        raise ConnectionError("away")

    job = await done(sf)
    assert (job.reason, calls) == ("max_attempts", [1, 2, 3, 4]), "the first made progress, and is not counted"


async def test_a_permanent_failure_ends_it_whatever_the_progress(sf):
    steps_that_fail_after_each(sf, 3, Permanent)
    job = await done(sf)
    assert (job.state, job.attempts) == ("dead", 1)


async def test_progress_that_is_given_back_or_snoozed_opens_a_round_too(sf):
    @sf.handler("work")
    async def work(job):
        if job.attempt <= 2:
            raise ConnectionError("away")
        if not (await job_of(sf, job.id)).effects:
            await job.step("first", int)
            return Snooze(0)
        raise ConnectionError("away")

    job = await done(sf)
    assert (job.reason, job.attempts) == ("max_attempts", 5), "three more without progress, after the one with it"


async def test_a_replay_after_progress_opens_a_round_and_looks_only_once(sf):
    looks = []

    def look(_job):
        looks.append(1)
        return False

    @sf.handler("work", effects=[Effect("mail", look)])
    async def work(job):
        await job.step(f"step {min(job.attempt, 6)}", int)
        raise ConnectionError("away")

    job = await done(sf)
    assert (job.reason, job.attempts, looks) == ("max_attempts", 9, [])
    await sf.dead_letters.replay(job.id, by="ann", reason="again")
    await drain(sf)
    job = await job_of(sf, job.id)
    assert (job.attempts, job.max_attempts, len(looks)) == (12, 12, 2), "when asked for, and before it runs"


async def test_more_steps_than_a_job_keeps_end_it(sf, monkeypatch):
    """Or a handler that names its steps by the time would go on for ever."""
    monkeypatch.setattr("standfast.wings.effects.ledger.MOST_ENTRIES", 5)

    @sf.handler("work")
    async def work(job):
        await job.step(f"step {job.attempt}", int)
        raise ConnectionError("away")

    job = await done(sf)
    assert (job.state, job.reason, job.attempts) == ("dead", "too_many_steps", 6)


async def test_progress_does_not_outlive_the_queue_s_max_age(sf):
    sf.queue("work", backoff=no_backoff(), attempts=3, max_age=10)

    @sf.handler("work")
    async def work(job):
        await job.step(f"step {job.attempt}", int)
        sf.clock.advance(4)
        raise ConnectionError("away")

    job = await done(sf)
    assert (job.state, job.reason, job.attempts) == ("dead", "max_age", 3)


# --- steps that were cut off


@pytest.mark.parametrize("mode", ["replay", "verify_first"])
async def test_a_step_that_was_cut_off_is_run_again_and_history_said_so_before(sf, mode):
    cuts = [TimeoutError()]

    @sf.handler("work", replay=mode, effects=[Effect("mail", lambda _job: False)])
    async def work(job):
        def fetch():
            if cuts:
                raise cuts.pop()
            return "fetched"

        return await job.step("fetch", fetch)

    job = await done(sf)
    assert (job.result, [line.possible_duplicate for line in job.history]) == ("fetched", [True])


async def test_a_step_does_not_stand_for_an_effect_that_is_not_in_the_ledger(sf):
    """Its check is asked: that a step was completed says nothing about what the handler does beside it."""
    made = []

    @sf.handler("work", replay="verify_first", effects=[Effect("ticket", lambda _job: bool(made))])
    async def work(job):
        await job.step("fetch", int)
        made.append(job.attempt)
        raise TimeoutError

    job = await done(sf)
    assert (job.state, job.warning, made) == ("completed", "post_write_recovery", [1])


# --- big ones


async def test_a_claim_does_not_bring_big_values_and_a_handler_gets_them_all_the_same(sf):
    brought: list[Any] = []

    @sf.handler("work")
    async def work(job):
        texts = [await job.step(f"read {n}", "x".__mul__, 100_000 + n) for n in range(50)]
        if job.attempt == 1:
            raise Transient("once more")
        brought.extend(entry.receipt for entry in job.ledger.entries or ())
        return [len(text) for text in texts]

    receipt = await sf.enqueue("work")
    started = time.monotonic()
    await drain(sf)
    assert time.monotonic() - started < 30
    job = await job_of(sf, receipt.id)
    assert job.result == [100_000 + n for n in range(50)]
    assert brought == [None] * 50
    assert len(job.effects[0]["receipt"]) >= 100_000, "who reads one job gets every receipt whole"
    [listed] = await sf.jobs(queue="work")
    assert (listed.effects[0]["receipt"], listed.effects[0]["receipt_bytes"] > 100_000) == (None, True)


async def test_a_plain_function_gets_big_values_too(sf):
    @sf.handler("work", effects=[Effect("read")])
    def work(job):
        text = job.once_sync("read", lambda: "x" * 5000)
        if job.attempt == 1:
            raise Transient("once more")
        with job.effect("read") as e:
            return [len(text), e.done, len(e.receipt)]

    assert (await done(sf)).result == [5000, True, 5000], "a block knows of a call of the same name"


async def test_history_quotes_no_more_than_the_beginning_of_a_receipt(sf):
    @sf.handler("work", effects=[Effect("x", lambda _job: False)])
    async def work(job):
        await job.once("x", lambda: "y" * 100_000)
        return {"verified": job.attempt > 1}

    job = await done(sf)
    assert max(len(line.message or "") for line in job.history) < 1000


async def test_a_job_that_uses_no_step_has_no_ledger(sf):
    @sf.handler("work")
    async def work(job):
        assert job.begun_ledger is None

    job = await done(sf)
    record = await store_of(sf).read(reads.job(job.id, store_of(sf).boot()))
    assert (job.state, record and record.effects) == ("completed", ())
