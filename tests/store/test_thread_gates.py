"""The gate of a thread: one job holds it, the others are parked, and whatever ends hands it on."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.application.wings import store_at
from standfast.failure import Class, Landed
from standfast.job import Claim
from standfast.lifecycle import JobRef, State, Transition
from standfast.outcome import Cancel, Drained, Lapsed, Snooze, Succeeded
from standfast.rules import QueueRules, fixed
from standfast.spine import intake
from standfast.spine.apply import apply
from standfast.store.postgres import driver as postgres
from standfast.store.sqlite import sqlite_engine as sqlite
from standfast.store.statements import Statement, load
from standfast.store.store import Store
from standfast.testing import FrozenClock
from standfast.wings.jobs import scripts as operations
from standfast.wings.jobs.rules import cancel
from standfast.wings.records import reads
from standfast.wings.replays.returning import standing
from standfast.wings.replays.rules import Refusal, replay
from tests.store import behind
from tests.store.suite import beat, claim_one, claimed, ended, failed, new_job, one, publish, seen, states, sweep, swept

START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
WAIT = 10
NEVER = QueueRules(coalesce="never", backoff=fixed(WAIT), lease=30.0)
LATEST = QueueRules(backoff=fixed(WAIT), lease=30.0)
DONE = Succeeded()
DEATH = failed(Class.PERMANENT)
HANDLERS = ("mail", "other")


async def in_order(store: Store, number: int = 2, **given: Any) -> list[str]:
    """Store jobs of one thread that are all kept; the first holds the gate."""
    publish(store, mail=NEVER)
    return [await one(store, thread_key="t", **given) for _ in range(number)]


async def stands(store: Store, job_id: str) -> JobRef:
    record = await store.read(reads.job(job_id, store.boot()))
    assert record is not None
    return standing(record.row)


async def moved(store: Store, decided: Transition | Refusal) -> bool:
    assert isinstance(decided, Transition)
    [landed] = await store.write_all(apply, [decided])
    return landed


async def views(store: Store, *ids: str) -> list[str]:
    return [(await seen(store, job_id)).view for job_id in ids]


@pytest.mark.parametrize("outcome", [DONE, DEATH, Cancel("not needed")])
async def test_an_end_frees_the_thread_for_the_oldest(store, outcome):
    """Running and waiting for a repeat occupy a thread; completed, dead and cancelled free it."""
    _, second, third = await in_order(store, 3)
    await ended(store, await claim_one(store), outcome)
    assert await views(store, second, third) == ["queued", "parked"]
    assert [claim.id for claim in await claimed(store, slots=3)] == [second]


@pytest.mark.parametrize(
    ("outcome", "view"), [(failed(), "retry_pending"), (Snooze(WAIT), "scheduled"), (Lapsed(), "retry_pending")]
)
async def test_what_will_go_on_keeps_its_thread(store, clock, outcome, view):
    first, second = await in_order(store)
    await ended(store, await claim_one(store), outcome, NEVER)
    assert await views(store, first, second) == [view, "parked"]
    assert await claimed(store) == []
    clock.advance(WAIT)
    assert (await claim_one(store)).id == first


async def test_what_a_drain_gives_back_keeps_its_turn(store):
    first, _ = await in_order(store)
    await ended(store, await claim_one(store), Drained())
    assert (await claim_one(store)).id == first


async def test_a_lapsed_lease_keeps_the_thread(store, clock):
    """Nobody knows how far it came: it goes again before anything else of its thread, under latest too."""
    publish(store, mail=LATEST)
    first = await one(store, thread_key="t")
    beat(store)
    await claim_one(store)
    second = await one(store, thread_key="t")
    await sweep(store)
    for _ in range(5):
        clock.advance(WAIT)
        await swept(store)
    assert await views(store, first, second) == ["retry_pending", "parked"]
    clock.advance(WAIT)
    assert (await claim_one(store)).id == first


async def test_a_delayed_job_does_not_block_its_thread(store, clock):
    publish(store, mail=NEVER)
    later = await one(store, thread_key="t", delay=50.0)
    now = await one(store, thread_key="t")
    running = await claim_one(store)
    assert running.id == now
    clock.advance(50)
    assert await claimed(store) == [], "due now, and behind the one that runs"
    assert await views(store, later) == ["parked"]
    await ended(store, running, DONE)
    assert (await claim_one(store)).id == later


async def test_a_hurried_job_does_not_overtake_its_thread(store):
    """Made due by hand, it waits for its turn like any other."""
    publish(store, mail=NEVER)
    later = await one(store, thread_key="t", delay=50.0)
    await one(store, thread_key="t")
    running = await claim_one(store)
    assert await store.write(operations.hurry, later)
    assert await claimed(store) == []
    await ended(store, running, DONE)
    assert (await claim_one(store)).id == later


@pytest.mark.parametrize("place", [0, 1])
async def test_cancelling_keeps_the_gate_right(store, place):
    ids = await in_order(store, 3)
    assert await moved(store, cancel(await stands(store, ids.pop(place))))
    assert await views(store, *ids) == ["queued", "parked"]


async def test_expiry_of_a_parked_job_keeps_the_gate_right(store, clock):
    publish(store, mail=NEVER)
    first = await one(store, thread_key="t")
    parked = await one(store, thread_key="t", expires=START + 5)
    last = await one(store, thread_key="t")
    clock.advance(6)
    await swept(store)
    assert await states(store, parked) == ["dead"]
    for job_id in (first, last):
        claim = await claim_one(store)
        assert claim.id == job_id
        await ended(store, claim, DONE)


async def test_a_replayed_letter_waits_behind_what_came_meanwhile(store, look):
    """And it takes nobody's place: a job that returns is superseded by newer ones only."""
    publish(store, mail=LATEST)
    letter = await one(store, thread_key="t")
    await ended(store, await claim_one(store), DEATH)
    newer = await one(store, thread_key="t")
    running = await claim_one(store)
    assert await moved(store, replay(await stands(store, letter)))
    assert await views(store, letter) == ["parked"]
    await ended(store, running, failed(), LATEST)
    assert await views(store, newer, letter) == ["retry_pending", "parked"]
    assert look("SELECT count(*) FROM gate") == [(1,)]


async def test_a_replay_is_not_superseded_by_what_came_meanwhile(store):
    """Somebody asked for this very job."""
    publish(store, mail=LATEST)
    letter = await one(store, thread_key="t")
    await ended(store, await claim_one(store), DEATH)
    await one(store, thread_key="t")
    running = await claim_one(store)
    parked = await one(store, thread_key="t")
    assert await moved(store, replay(await stands(store, letter)))
    assert await views(store, letter, parked) == ["parked", "parked"]
    await ended(store, running, DONE)
    assert (await claim_one(store)).id == letter


async def test_a_replayed_letter_takes_a_free_thread(store):
    letter = await one(store, thread_key="t")
    await ended(store, await claim_one(store), DEATH)
    assert await moved(store, replay(await stands(store, letter)))
    assert (await claim_one(store)).id == letter


async def test_no_gate_outlives_its_thread(store, look):
    await in_order(store)
    for _ in range(2):
        await ended(store, await claim_one(store), DONE)
    assert look("SELECT * FROM gate") == []


async def test_a_claim_reads_nothing_of_what_is_parked(store, look):
    """Parked jobs are in none of the indexes a claim walks, so its cost cannot depend on them."""
    await in_order(store, 50)
    for name in ("lanes", "claim_lane", "claim_lanes"):
        for dialect in ("sqlite", "postgres"):
            assert "ready_at IS NOT NULL" in load(dialect)[name].sql
    claimable = "state = 'queued' AND ready_at IS NOT NULL"
    due = "state = 'queued' AND ready_at IS NULL AND parked_on IS NULL"
    assert look(f"SELECT count(*) FROM job WHERE {claimable}") == [(1,)]  # noqa: S608
    assert look(f"SELECT count(*) FROM job WHERE {due}") == [(0,)]  # noqa: S608


@pytest.mark.parametrize("statements", [sqlite.STATEMENTS, postgres.STATEMENTS])
async def test_joining_a_long_thread_reads_none_of_its_jobs(store, statements, monkeypatch):
    """Where every job is kept, a newcomer needs to know none of them."""
    await in_order(store, 3)
    monkeypatch.setitem(statements, "thread_members", Statement("SELECT 1 FROM no_such_table", gives_rows=True))
    await one(store, thread_key="t")


# --- whatever happens, in whatever order

OUTCOMES = [DONE, DEATH, failed(), failed(landed=Landed.MAYBE), Snooze(WAIT), Drained(), Lapsed(), Cancel()]
STEPS = st.one_of(
    st.tuples(
        st.just("enqueue"), st.sampled_from("ab"), st.sampled_from(HANDLERS), st.sampled_from([0.0, 0.0, 0.0, 15.0])
    ),
    st.tuples(st.just("claim"), st.integers(1, 3)),
    st.tuples(st.just("end"), st.sampled_from(OUTCOMES)),
    st.tuples(st.sampled_from(["cancel", "replay", "hurry"]), st.integers(0, 9)),
    st.tuples(st.just("advance"), st.sampled_from([1, WAIT])),
)


class Play:
    """One story on one store, looked at after every step."""

    def __init__(self, mode: Any) -> None:
        self.clock = FrozenClock()
        self.store = store_at(":memory:", self.clock)
        self.store.open()
        self.rules = QueueRules(coalesce=mode, backoff=fixed(WAIT), attempts=3)
        publish(self.store, mail=self.rules)
        self.ids: list[str] = []
        self.running: list[Claim] = []

    def look(self, sql: str) -> list[tuple[Any, ...]]:
        return behind.rows(self.store, sql)

    async def step(self, what: str, *given: Any) -> None:
        await getattr(self, what)(*given)
        self.check()

    async def enqueue(self, thread: str, handler: str, delay: float) -> None:
        [receipt] = await self.store.write_all(
            intake.enqueue, [new_job("mail", handler=handler, thread_key=thread, delay=delay)]
        )
        assert not isinstance(receipt, Refusal)
        self.ids.append(getattr(receipt, "id", None) or "")

    async def claim(self, slots: int) -> None:
        self.running += await claimed(self.store, slots=slots, handlers=HANDLERS)
        left = "SELECT count(*) FROM job WHERE state = 'queued' AND ready_at IS NULL AND parked_on IS NULL"
        assert self.look(f"{left} AND due_at <= {self.store.now()!r}") == [(0,)], "what is due is admitted"

    async def end(self, outcome: Any) -> None:
        if self.running:
            assert await ended(self.store, self.running.pop(0), outcome, self.rules)

    async def cancel(self, number: int) -> None:
        await self._operate(cancel, number)

    async def replay(self, number: int) -> None:
        await self._operate(replay, number)

    async def _operate(self, decide: Any, number: int) -> None:
        decided = decide(await stands(self.store, self.ids[number % len(self.ids)])) if self.ids else None
        if isinstance(decided, Transition):
            assert await moved(self.store, decided)

    async def hurry(self, number: int) -> None:
        if self.ids:
            await self.store.write(operations.hurry, self.ids[number % len(self.ids)])

    async def advance(self, seconds: int) -> None:
        self.clock.advance(seconds)

    def check(self) -> None:
        jobs = "SELECT n, thread_gate, state, ready_at, parked_on, token FROM job WHERE finished_at IS NULL"
        unfinished = {n: rest for n, *rest in self.look(jobs)}
        gates = dict(self.look("SELECT key, holder FROM gate"))
        for gate, holder in gates.items():
            of, state, ready_at, parked_on, token = unfinished[holder]
            assert (of, parked_on) == (gate, None)
            assert state == "running" or ready_at is not None or token, "claimable, running or between attempts"
        for n, (gate, state, ready_at, parked_on, _) in unfinished.items():
            if state == "running" or ready_at is not None:
                assert gates[gate] == n, "nothing runs or can be claimed without its gate"
            if parked_on is not None:
                assert (parked_on, ready_at) == (gate, None)
                assert gates[gate] != n, "whoever waits waits for somebody else"

    async def finish(self) -> None:
        """Let everything end: nothing is stuck, and no gate is left."""
        while self.running:
            await self.step("end", DONE)
        for _ in range(len(self.ids) + 1):
            self.clock.advance(100)
            await self.step("claim", 9)
            while self.running:
                await self.step("end", DONE)
        ends = set(await states(self.store, *self.ids))
        assert ends <= {State.COMPLETED, State.DEAD, State.CANCELLED}
        assert self.look("SELECT * FROM gate") == []


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["latest", "collect", "never"]), st.lists(STEPS, min_size=5, max_size=25))
def test_the_gates_stay_right_whatever_happens(mode, story):
    play = Play(mode)

    async def go() -> None:
        for step in story:
            await play.step(*step)
        await play.finish()

    try:
        asyncio.run(go())
    finally:
        play.store.close()
