"""Effects: looked at before a repeat, kept in the ledger, done again only where they are missing."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from standfast import (
    Cancel,
    ConfigurationError,
    Effect,
    FileEffect,
    HttpEffect,
    Job,
    LeaseLost,
    Permanent,
    Snooze,
    Transient,
    Uncertain,
    fixed,
)
from standfast.errors import NotVerified
from standfast.lifecycle import JobRef, State
from standfast.spine.apply import apply
from standfast.spine.settle import given_back
from standfast.testing import drain
from standfast.wings.effects import declared
from standfast.wings.records import reads
from tests.waiting import effects_of, failure_of, job_of, seen
from tests.worker.inside import store_of

WAIT = 10.0


class World:
    """What handlers did, by the key of each effect, and how often."""

    def __init__(self) -> None:
        self.acts: Counter[str] = Counter()
        self.there: set[str] = set()
        self.looked = 0

    def act(self, key: str, error: BaseException | None = None) -> dict[str, str]:
        """Do it, and be cut off if so asked."""
        self.acts[key.rpartition(".")[2]] += 1
        self.there.add(key)
        if error is not None:
            raise error
        return {"id": key}

    def check(self, _job: Job, effect: Any) -> bool:
        """Look for it."""
        self.looked += 1
        return effect.key in self.there


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(autouse=True)
def _rules(sf):
    sf.queue("acts", backoff=fixed(WAIT), attempts=4)


async def tried(sf, receipt):
    await drain(sf)
    job = await job_of(sf, receipt.id)
    sf.clock.advance(WAIT)
    return job


def ticket(world: World, name: str = "ticket") -> Effect:
    return Effect(name, world.check)


# --- the ledger


async def test_a_receipt_is_given_back_and_nothing_is_done_again(sf, world):
    receipts = []

    @sf.handler("acts", effects=[Effect("ticket")])
    async def handler(job):
        async with job.effect("ticket") as effect:
            if not effect.done:
                effect.record(world.act(effect.key))
        receipts.append(effect.receipt)
        if job.attempt == 1:
            raise TimeoutError
        return await job.once("ticket", world.act, "never")

    receipt = await sf.enqueue("acts")
    first = await tried(sf, receipt)
    assert (first.view, failure_of(first).landed) == ("retry_pending", "no")
    job = await tried(sf, receipt)
    kept = {"id": f"{receipt.id}.ticket"}
    assert (job.state, job.result, receipts, world.acts["ticket"]) == ("completed", kept, [kept, kept], 1)
    assert effects_of(job) == [{"name": "ticket", "verdict": "verified", "receipt": kept}]


async def test_plain_functions_have_the_same_ledger(sf, world):
    threads = []

    @sf.handler("acts", effects=[Effect("ticket"), Effect("mail")])
    def handler(job):
        def send():
            threads.append(threading.current_thread())
            return world.act(f"{job.id}.mail")

        with job.effect("ticket") as effect:
            if not effect.done:
                world.act(effect.key)
        job.once_sync("mail", send)
        if job.attempt == 1:
            raise TimeoutError
        return [effect.done, effect.receipt, job.once_sync("mail", send)]

    receipt = await sf.enqueue("acts")
    await tried(sf, receipt)
    job = await tried(sf, receipt)
    assert job.result == [True, None, {"id": f"{receipt.id}.mail"}]
    assert world.acts == {"ticket": 1, "mail": 1}
    assert threads[0] is not threading.main_thread()


async def test_two_of_three_landed_and_only_the_third_runs_again(sf, world):
    @sf.handler("acts", replay="verify_first", effects=[ticket(world, name) for name in ("one", "two", "three")])
    async def handler(job):
        for name in ("one", "two", "three"):
            cut = TimeoutError() if job.attempt == 1 and name == "two" else None
            await job.once(name, lambda name=name, cut=cut: world.act(f"{job.id}.{name}", cut))
        return "all"

    receipt = await sf.enqueue("acts")
    first = await tried(sf, receipt)
    assert [(effect["name"], effect["verdict"]) for effect in first.effects] == [
        ("one", "verified"),
        ("two", "indeterminate"),
    ]
    job = await tried(sf, receipt)
    assert (job.state, job.result, job.warning) == ("completed", "all", None)
    assert world.acts == {"one": 1, "two": 1, "three": 1}
    assert {effect["name"]: effect["verdict"] for effect in job.effects} == dict.fromkeys(
        ("one", "two", "three"), "verified"
    )


@pytest.mark.parametrize(
    ("error", "landed", "left"),
    [
        (TimeoutError(), "maybe", ["indeterminate"]),
        (Uncertain("cut off"), "maybe", ["indeterminate"]),
        (Transient("busy"), "no", []),
        (Permanent("no"), "no", []),
    ],
)
async def test_what_a_block_is_left_by_says_whether_it_landed(sf, error, landed, left):
    def fail():
        raise error

    @sf.handler("acts", effects=[Effect("ticket")])
    async def handler(job):
        await job.once("ticket", fail)

    job = await tried(sf, await sf.enqueue("acts"))
    assert (failure_of(job).landed, [effect["verdict"] for effect in job.effects]) == (landed, left)


async def test_an_intent_that_is_still_open_is_not_closed_by_a_later_attempt_that_came_to_nothing(sf):
    errors = [TimeoutError(), Transient("busy")]

    @sf.handler("acts", effects=[Effect("ticket")])
    async def handler(job):
        async with job.effect("ticket"):
            raise errors[job.attempt - 1]

    receipt = await sf.enqueue("acts")
    await tried(sf, receipt)
    assert failure_of(await tried(sf, receipt)).landed == "maybe"


@pytest.mark.parametrize("mode", ["replay", "verify_first"])
@pytest.mark.parametrize("error", [Permanent("declined"), Transient("busy")])
async def test_after_a_look_that_says_absent_an_attempt_that_came_to_nothing_leaves_no_doubt(sf, mode, error):
    errors = [RuntimeError("cut off"), error]

    @sf.handler("acts", replay=mode, effects=[Effect("ticket", lambda _job: False)])
    async def handler(job):
        async with job.effect("ticket"):
            raise errors[job.attempt - 1]

    receipt = await sf.enqueue("acts")
    assert failure_of(await tried(sf, receipt)).landed == "maybe"
    job = await tried(sf, receipt)
    assert (failure_of(job).landed, {effect["verdict"] for effect in job.effects}) == ("no", {"absent"})


async def test_an_effect_that_is_cut_off_again_after_a_look_is_in_doubt_again(sf):
    @sf.handler("acts", effects=[Effect("ticket", lambda _job: False)])
    async def handler(job):
        with suppress(TimeoutError):
            async with job.effect("ticket"):
                raise TimeoutError
        async with job.effect("ticket"):
            raise Permanent("declined")

    receipt = await sf.enqueue("acts")
    assert failure_of(await tried(sf, receipt)).landed == "maybe"
    await sf.dead_letters.replay(receipt.id, by="ann")
    job = await tried(sf, receipt)
    assert [(effect["verdict"], effect["attempt"]) for effect in job.effects][-1] == ("indeterminate", 2)
    assert failure_of(job).landed == "maybe"


async def test_a_receipt_that_was_recorded_counts_whatever_comes_after(sf, world):
    @sf.handler("acts", effects=[Effect("ticket")])
    async def handler(job):
        async with job.effect("ticket") as effect:
            if not effect.done:
                effect.record(world.act(effect.key))
                raise TimeoutError
        return "skipped"

    receipt = await sf.enqueue("acts")
    assert failure_of(await tried(sf, receipt)).landed == "no"
    assert ((await tried(sf, receipt)).result, world.acts["ticket"]) == ("skipped", 1)


@pytest.mark.parametrize("effects", [(), [Effect("mail"), Effect("bill")]])
async def test_an_undeclared_effect_is_an_error_with_what_to_write(sf, effects):
    @sf.handler("acts", effects=effects)
    async def handler(job):
        await job.once("ticket", lambda: 1)

    job = await tried(sf, await sf.enqueue("acts"))
    told = failure_of(job).message
    assert job.state == "dead"
    assert ("declared are mail, bill" in told) if effects else ("effects=[Effect('ticket')]" in told)
    assert (job.reason, "does not declare this effect" in failure_of(job).advice) == ("undeclared_effect", True)


async def test_what_was_called_already_is_no_function_and_begins_nothing(sf):
    @sf.handler("acts", effects=[Effect("ticket")])
    async def handler(job):
        await job.once("ticket", asyncio.sleep(0))

    job = await tried(sf, await sf.enqueue("acts"))
    assert ("job.once('ticket', function" in failure_of(job).message, job.effects) == (True, [])


async def test_one_effect_is_not_done_twice_at_the_same_time(sf, world):
    @sf.handler("acts", effects=[Effect("ticket")])
    async def handler(job):
        async def slow():
            await asyncio.sleep(0)
            return world.act(f"{job.id}.ticket")

        answers = await asyncio.gather(job.once("ticket", slow), job.once("ticket", slow), return_exceptions=True)
        return [type(answer).__name__ for answer in answers]

    job = await tried(sf, await sf.enqueue("acts"))
    assert (job.result, world.acts["ticket"]) == (["dict", "ConfigurationError"], 1)


@pytest.mark.parametrize(("mode", "acts"), [("replay", 2), ("manual", 1)])
async def test_an_effect_that_was_cut_off_is_done_again_in_the_same_attempt_only_where_that_may_be(
    sf, world, mode, acts
):
    @sf.handler("acts", replay=mode, effects=[Effect("ticket")])
    async def handler(job):
        for error in (TimeoutError(), None):
            try:
                await job.once("ticket", lambda error=error: world.act(f"{job.id}.ticket", error))
            except TimeoutError:
                continue
        return "done"

    await tried(sf, await sf.enqueue("acts"))
    assert world.acts["ticket"] == acts


async def test_a_worker_that_lost_its_job_does_not_begin(sf, world):
    met = []

    @sf.handler("acts", effects=[Effect("ticket")])
    async def handler(job):
        store = store_of(sf)
        record = await store.read(reads.job(job.id, store.boot()))
        assert record is not None
        standing = JobRef(record.row.n, job.token, job.id, job.queue, State.RUNNING)
        await store.write_all(apply, [given_back(standing)])
        try:
            await job.once("ticket", world.act, "key")
        except LeaseLost as error:
            met.append(str(error))
            return Cancel("lost")
        return None

    receipt = await sf.enqueue("acts")
    worker = sf.worker()
    async with worker:
        await seen(lambda: met)
        await sf.cancel(receipt.id)
    assert "must not begin here" in met[0]
    assert world.acts == {}


# --- looking before a repeat


async def test_a_late_commit_shows_up_before_the_repeat(sf, world):
    """The check says absent, the job runs again and is cut off again; meanwhile the first write has come through."""

    @sf.handler("acts", replay="verify_first", effects=[ticket(world)])
    async def handler(_job):
        world.acts["ticket"] += 1
        raise TimeoutError

    receipt = await sf.enqueue("acts")
    await tried(sf, receipt)
    assert (await tried(sf, receipt)).view == "retry_pending"
    assert (world.acts["ticket"], world.looked) == (2, 1)
    world.there.add(f"{receipt.id}.ticket")
    job = await tried(sf, receipt)
    assert (job.state, job.warning, job.attempts, world.acts["ticket"]) == ("completed", "post_write_recovery", 2, 2)
    reply = await sf.retry(receipt.id)
    assert (reply["status"], reply["post_write_recovery"], reply["effects_verified"]) == ("ok", True, ["ticket"])


def raising(_job):
    raise OSError("no route")


async def hanging(_job):
    await asyncio.sleep(60)


def hanging_plainly(_job):
    time.sleep(1)  # far longer than its timeout


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (raising, "OSError: no route"),
        (hanging, "longer than 0.05 s"),
        (hanging_plainly, "longer than 0.05 s"),
        (lambda _job: None, "answered None"),
        (lambda _job: "indeterminate", "its check says so"),
    ],
)
async def test_a_check_that_cannot_tell_holds_the_job_and_is_named(sf, check, words):
    runs = []

    @sf.handler("acts", replay="verify_first", effects=[Effect("ticket", check, timeout=0.05)])
    async def handler(job):
        runs.append(job.attempt)
        raise TimeoutError

    receipt = await sf.enqueue("acts")
    await tried(sf, receipt)
    job = await tried(sf, receipt)
    assert (job.state, failure_of(job).reason_code, runs) == ("held", "unknown_commit_state", [1])
    assert failure_of(job).message.startswith("effect 'ticket' cannot be told:")
    assert words in failure_of(job).message
    assert effects_of(job) == [{"name": "ticket", "verdict": "indeterminate", "receipt": None}]
    said = await sf.explain(receipt.id)
    assert "effect 'ticket' cannot be told" in said
    assert "resolve" in said
    assert (await sf.dead_letters.get(receipt.id)).attempts == 1


async def test_every_mode_looks_for_an_open_intent(sf, world):
    """A replay handler that used the ledger does not do again what its check finds; it runs the rest."""

    @sf.handler("acts", effects=[ticket(world), Effect("mail")])
    async def handler(job):
        cut = TimeoutError() if job.attempt == 1 else None
        await job.once("ticket", lambda: world.act(f"{job.id}.ticket", cut))
        return await job.once("mail", world.act, f"{job.id}.mail")

    receipt = await sf.enqueue("acts")
    await tried(sf, receipt)
    job = await tried(sf, receipt)
    assert (job.state, world.acts, world.looked) == ("completed", {"ticket": 1, "mail": 1}, 1)


async def test_a_first_attempt_and_a_snoozed_one_are_not_looked_at(sf, world):
    @sf.handler("acts", replay="verify_first", effects=[ticket(world)])
    async def handler(job):
        if not world.acts:
            world.act(f"{job.id}.ticket")
            return Snooze(1)
        return "went on"

    receipt = await sf.enqueue("acts")
    await tried(sf, receipt)
    assert ((await tried(sf, receipt)).result, world.looked) == ("went on", 0)


async def test_a_snooze_with_an_open_intent_is_a_possible_duplicate_before_it_is_done_again(sf, world):
    @sf.handler("acts", effects=[Effect("ticket")])
    async def handler(job):
        with suppress(TimeoutError):
            await job.once("ticket", world.act, "ticket", None if world.acts else TimeoutError())
            return "done"
        return Snooze(1)

    receipt = await sf.enqueue("acts")
    assert [line.possible_duplicate for line in (await tried(sf, receipt)).history] == [True]
    assert ((await tried(sf, receipt)).result, world.acts["ticket"]) == ("done", 2)


async def test_a_check_that_asks_to_exit_says_nothing_and_stops_nobody(sf):
    async def check(_job):
        raise SystemExit(3)

    @sf.handler("acts", replay="verify_first", effects=[Effect("ticket", check)])
    async def handler(_job):
        raise TimeoutError

    receipt = await sf.enqueue("acts")
    await tried(sf, receipt)
    job = await tried(sf, receipt)
    assert (job.state, "asked the process to exit (3)" in failure_of(job).message) == ("held", True)


@pytest.mark.parametrize(("error", "looks"), [(TimeoutError(), (0, 1, 2)), (Transient("busy"), (0, 0, 0))])
async def test_verify_first_looks_before_every_repeat_after_which_an_effect_may_exist(sf, world, error, looks):
    @sf.handler("acts", replay="verify_first", effects=[ticket(world)])
    async def handler(_job):
        raise error

    receipt = await sf.enqueue("acts")
    for looked in looks:
        await tried(sf, receipt)
        assert world.looked == looked


async def test_the_handlers_timeout_does_not_count_the_look(sf):
    async def slow(_job):
        await asyncio.sleep(0.3)
        return False

    @sf.handler("acts", replay="verify_first", timeout=0.2, effects=[Effect("ticket", slow)])
    async def handler(job):
        if job.attempt == 1:
            raise TimeoutError
        return "done"

    receipt = await sf.enqueue("acts")
    await tried(sf, receipt)
    assert (await tried(sf, receipt)).result == "done"


async def test_a_drain_does_not_wait_for_a_look(sf):
    """The handler was not entered: nothing is spent, and nothing is held."""
    looking = asyncio.Event()

    async def hang(_job):
        looking.set()
        await asyncio.sleep(60)

    @sf.handler("acts", replay="verify_first", effects=[Effect("ticket", hang, timeout=60)])
    async def handler(_job):
        raise TimeoutError

    receipt = await sf.enqueue("acts")
    await tried(sf, receipt)
    async with sf.worker(grace=0.01):
        await looking.wait()
    job = await job_of(sf, receipt.id)
    assert (job.view, job.attempts, job.deferrals) == ("retry_pending", 1, 1)


async def test_a_job_that_never_ran_is_not_resolved_by_what_is_there_already(sf, world):
    @sf.handler("acts", replay="verify_first", effects=[Effect("ticket", lambda _job: True)])
    async def handler(_job):
        world.acts["ticket"] += 1

    sf.queue("acts", max_age=5)
    receipt = await sf.enqueue("acts")
    sf.clock.advance(6)
    assert (await tried(sf, receipt)).reason == "max_age"
    assert (await sf.dead_letters.replay(receipt.id, by="ann"))["outcome"] == "replayed"
    await drain(sf)
    assert ((await job_of(sf, receipt.id)).warning, world.acts["ticket"]) == (None, 1)


# --- whose effects


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda inner: inner,
        lambda inner: lambda _job: inner,
        lambda inner: lambda job: (inner, {"path": job.payload["path"]}),
        lambda inner: lambda job: declared.effects_of(inner, job)[0],
    ],
)
async def test_a_wrapper_is_judged_by_what_it_wraps(sf, world, wrapped):
    file = Effect("file", lambda job: job.payload["path"] in world.there)

    @sf.handler("inner", replay="verify_first", effects=[file])
    async def inner(_job):
        raise NotImplementedError

    @sf.handler("acts", replay="verify_first", effects=wrapped(inner))
    async def wrapper(job):
        world.there.add(job.payload["path"])
        raise TimeoutError

    receipt = await sf.enqueue("acts", {"path": "/there"})
    await tried(sf, receipt)
    job = await tried(sf, receipt)
    assert (job.state, job.warning) == ("completed", "post_write_recovery")
    assert effects_of(job) == [{"name": "file", "verdict": "verified", "receipt": None}]


async def test_effects_that_cannot_be_found_out_cannot_be_told(sf):
    def known_at_first(job):
        return [Effect("ticket", lambda _job: True)] if job.attempt == 2 else job.payload["missing"]

    @sf.handler("acts", replay="verify_first", effects=known_at_first)
    async def handler(_job):
        raise TimeoutError

    receipt = await sf.enqueue("acts", {})
    first = await tried(sf, receipt)
    assert (failure_of(first).landed, "could not be found out" in failure_of(first).message) == ("no", True)
    assert failure_of(await tried(sf, receipt)).landed == "maybe"
    held = await tried(sf, receipt)
    assert "which effects it has cannot be told: KeyError" in failure_of(held).message
    assert (held.state, held.effects) == ("held", [])


@pytest.mark.parametrize(
    ("mode", "before", "expected"),
    [
        ("substring", "header\n", "a line with 42 in it"),
        ("sha256", "older", "new content"),
        ("absent", "to be deleted", None),
    ],
)
async def test_a_file_is_its_own_witness(sf, tmp_path, mode, before, expected):
    path = tmp_path / "file.txt"
    path.write_text(before)
    digest = hashlib.sha256((expected or "").encode()).hexdigest()
    witness = {"substring": "{payload.number}", "sha256": digest, "absent": None}[mode]
    runs = []

    @sf.handler("acts", replay="verify_first", effects=[FileEffect("file", "{payload.path}", witness, mode)])
    async def handler(job):
        runs.append(job.attempt)
        if job.attempt == 2:
            path.write_text(expected) if expected is not None else path.unlink()
        raise TimeoutError

    receipt = await sf.enqueue("acts", {"path": str(path), "number": 42})
    for _ in range(3):
        job = await tried(sf, receipt)
    assert (job.state, job.warning, runs) == ("completed", "post_write_recovery", [1, 2])


async def test_a_file_that_cannot_be_read_cannot_be_told(sf, tmp_path):
    @sf.handler("acts", replay="verify_first", effects=[FileEffect("file", str(tmp_path), "x")])
    async def handler(_job):
        raise TimeoutError

    receipt = await sf.enqueue("acts", {})
    await tried(sf, receipt)
    assert "IsADirectoryError" in failure_of(await tried(sf, receipt)).message


# --- letters


async def dead(sf, world, **how):
    """Let a job die that acted and was cut off; give its receipt."""

    @sf.handler("acts", replay="manual", effects=[ticket(world)], **how)
    async def handler(_job):
        world.acts["ticket"] += 1
        raise TimeoutError

    receipt = await sf.enqueue("acts", {"a": 1})
    assert (await tried(sf, receipt)).reason == "unknown_commit_state"
    return receipt


async def test_replaying_a_letter_that_had_landed_resolves_it_at_once(sf, world):
    receipt = await dead(sf, world)
    world.there.add(f"{receipt.id}.ticket")
    answer = await sf.dead_letters.replay(receipt.id, by="ann")
    assert (answer["outcome"], answer["why"]) == ("resolved", "it had landed: ticket verified")
    job = await tried(sf, receipt)
    assert (job.state, job.warning, world.acts["ticket"]) == ("completed", "post_write_recovery", 1)
    assert job.triage is not None
    assert job.triage.replay_status == "resolved"


async def test_replaying_a_letter_that_did_not_land_looks_again_and_runs(sf, world):
    receipt = await dead(sf, world)
    assert (await sf.dead_letters.replay(receipt.id, by="ann"))["outcome"] == "replayed"
    await tried(sf, receipt)
    assert (world.acts["ticket"], world.looked) == (2, 2)


async def test_what_landed_between_the_replay_and_the_claim_is_found_by_the_worker(sf, world):
    receipt = await dead(sf, world)
    await sf.dead_letters.replay(receipt.id, by="ann")
    world.there.add(f"{receipt.id}.ticket")
    job = await tried(sf, receipt)
    assert (job.state, job.warning, world.acts["ticket"]) == ("completed", "post_write_recovery", 1)


async def test_resolving_asks_the_checks_and_refuses_what_is_not_there(sf, world):
    receipt = await dead(sf, world)
    with pytest.raises(NotVerified, match="ticket absent"):
        await sf.dead_letters.resolve(receipt.id, by="ann", reason="I think so")
    assert (await job_of(sf, receipt.id)).state == "dead"
    world.there.add(f"{receipt.id}.ticket")
    job = await sf.dead_letters.resolve(receipt.id, by="ann", reason="it is there")
    assert (job.state, job.warning, job.result) == ("completed", "post_write_recovery", None)
    assert (job.history[-1].by, job.history[-1].reason) == ("ann", "it is there")


async def test_a_person_s_word_needs_no_check(sf, world):
    receipt = await dead(sf, world)
    job = await sf.dead_letters.resolve(receipt.id, by="ann", reason="asked them", result={"id": 7})
    assert (job.state, job.warning, job.result, world.looked) == ("completed", None, {"id": 7}, 0)


async def test_without_effects_or_handler_there_is_nothing_to_look_at(sf):
    @sf.handler("acts", replay="manual")
    async def handler(_job):
        raise TimeoutError

    receipt = await sf.enqueue("acts")
    await tried(sf, receipt)
    with pytest.raises(NotVerified, match="declares no effects"):
        await sf.dead_letters.resolve(receipt.id, by="ann", reason="x")


async def test_a_person_may_have_done_again_what_nobody_can_look_for(sf, world):
    """It is held for nobody: whoever replays it says that it may be done again, and that is written down."""

    @sf.handler("acts", replay="manual", effects=[Effect("ticket")])
    async def handler(job):
        cut = TimeoutError() if job.attempt == 1 else None
        await job.once("ticket", lambda: world.act(f"{job.id}.ticket", cut))

    receipt = await sf.enqueue("acts")
    assert (await tried(sf, receipt)).reason == "unknown_commit_state"
    await sf.dead_letters.replay(receipt.id, by="ann", reason="it is not there")
    job = await tried(sf, receipt)
    assert (job.state, world.acts["ticket"]) == ("completed", 2)
    assert [(line.by, line.possible_duplicate) for line in job.history][-1] == ("ann", True)


# --- declaring


@pytest.mark.parametrize(
    "wrong",
    [
        lambda sf: sf.handler("acts", replay="verify_first"),
        lambda sf: sf.handler("acts", replay="verify_first", effects=[Effect("ticket")]),
        lambda sf: sf.handler("acts", effects="ticket"),
        lambda sf: sf.handler("acts", effects=[Effect("a"), Effect("a")]),
        lambda _sf: Effect("two words"),
        lambda _sf: Effect("a", "no function"),  # type: ignore[arg-type]
        lambda _sf: Effect("a", lambda: True),
        lambda _sf: Effect("a", timeout=0),
        lambda _sf: FileEffect("a", "path"),
        lambda _sf: FileEffect("a", "path", "witness", "absent"),
        lambda _sf: FileEffect("a", "path", "witness", "regex"),  # type: ignore[arg-type]
        lambda _sf: FileEffect("a", "{path}", "witness"),
        lambda _sf: HttpEffect("a", "https://example.org/{payload.id"),
    ],
)
async def test_what_cannot_work_is_refused_where_it_is_written(sf, wrong):
    with pytest.raises(ConfigurationError):
        wrong(sf)
