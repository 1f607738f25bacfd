"""A caller that is nearly alone commits in its own turn; whatever stands in its way is left to the writer."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import apsw
import pytest

from standfast import Standfast
from standfast.errors import StoreDamaged
from standfast.spine import intake
from standfast.spine.claim import claim
from standfast.spine.claim_requests import ClaimRequest, QueueDemand
from standfast.store import waiting_requests as leading
from standfast.store.engine import CommitUnknown
from standfast.store.requests import Request
from standfast.store.sqlite import neighbours, sqlite_engine
from standfast.store.sqlite.sqlite_engine import SqliteEngine
from standfast.store.sqlite.watch import Watch
from standfast.store.waiting_requests import Line, StandingClaim, StandingClaims
from standfast.worker import upkeep
from tests.store.suite import new_job
from tests.waiting import seen
from tests.worker.inside import store_of

WRITER = "standfast-writer"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "queue.db")


@pytest.fixture
def committers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the threads that committed, in order."""
    found: list[str] = []
    commit = SqliteEngine._commit  # noqa: SLF001

    def recorded(self: SqliteEngine, connection: apsw.Connection) -> None:
        found.append(threading.current_thread().name)
        commit(self, connection)

    monkeypatch.setattr(SqliteEngine, "_commit", recorded)
    return found


@pytest.fixture(autouse=True)
def _any_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lead however slow the disk of the machine is that runs the tests."""
    monkeypatch.setattr(leading, "SLOWEST_LED", 10.0)


async def idle(sf: Standfast) -> None:
    """Wait until the writer sleeps."""
    line = store_of(sf)._engine._waiting  # noqa: SLF001
    await seen(lambda: line.sleeping and not line.waiting)


async def test_a_lone_caller_commits_on_its_own_thread(path, committers):
    async with Standfast(path) as sf:
        await sf.enqueue("mail", 1)
        await idle(sf)
        committers.clear()
        await sf.enqueue("mail", 2)
        assert committers == [threading.current_thread().name]
        assert len(await sf.jobs()) == 2


def test_so_does_a_thread_without_a_loop(path, committers):
    sf = Standfast(path)
    sf.enqueue_sync("mail", 1)
    asyncio.run(idle(sf))
    committers.clear()
    sf.enqueue_sync("mail", 2)
    assert committers == [threading.current_thread().name]
    asyncio.run(sf.close())


async def test_the_few_of_one_turn_share_a_round_and_a_crowd_is_the_writers(path, committers):
    async with Standfast(path) as sf:
        await sf.enqueue("mail", 0)
        await idle(sf)
        committers.clear()
        await asyncio.gather(*(sf.enqueue("mail", n) for n in range(leading.MOST_LED)))
        assert committers == [threading.current_thread().name]
        await idle(sf)
        committers.clear()
        await asyncio.gather(*(sf.enqueue("mail", n) for n in range(64)))
        assert set(committers) == {WRITER}
        assert len(await sf.jobs(limit=200)) == 1 + leading.MOST_LED + 64


async def test_a_caller_waits_for_no_other_process_in_its_own_turn(path, committers):
    """Its loop goes on with other work while another connection has the write lock."""
    async with Standfast(path) as sf:
        await sf.enqueue("mail", 1)
        await idle(sf)
        committers.clear()
        other = apsw.Connection(path)
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(sf.enqueue("mail", 2))
        turns = 0
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            await asyncio.sleep(0.005)
            turns += 1
        assert not waiting.done()
        assert turns > 10
        other.execute("ROLLBACK")
        other.close()
        assert (await waiting).outcome == "accepted"
        assert committers == [WRITER]


async def test_a_commit_whose_answer_is_lost_in_a_led_round_is_repeated_by_the_writer_and_stored_once(
    path, monkeypatch
):
    async with Standfast(path) as sf:
        await sf.enqueue("mail", 1)
        await idle(sf)
        commit = SqliteEngine._commit  # noqa: SLF001
        lost: list[str] = []

        def once(self: SqliteEngine, connection: apsw.Connection) -> None:
            commit(self, connection)
            if not lost:
                lost.append(threading.current_thread().name)
                raise CommitUnknown from apsw.IOError("the answer is lost")

        monkeypatch.setattr(SqliteEngine, "_commit", once)
        receipt = await sf.enqueue("mail", 2)
        assert lost == [threading.current_thread().name]
        assert receipt.outcome == "accepted"
        assert [each.payload for each in await sf.jobs()] == [2, 1]


async def test_a_script_that_fails_in_a_led_round_fails_only_its_caller(path, monkeypatch):
    async with Standfast(path) as sf:
        await sf.enqueue("mail", 1)
        await idle(sf)

        def broken(_queues: set[str]) -> Any:
            raise ValueError("a mistake of ours")

        with monkeypatch.context() as patch:
            patch.setattr(intake, "known_queues", broken)
            with pytest.raises(ValueError, match="a mistake of ours"):
                await sf.enqueue("mail", 2)
        assert (await sf.enqueue("mail", 3)).outcome == "accepted"
        assert [each.payload for each in await sf.jobs()] == [3, 1]


async def test_nothing_is_led_while_commits_are_slow(path, committers, monkeypatch):
    async with Standfast(path) as sf:
        await sf.enqueue("mail", 1)
        await idle(sf)
        monkeypatch.setattr(leading, "SLOWEST_LED", 0.0)
        monkeypatch.setattr(leading, "SLOWEST_AFTER_PAUSE", 0.0)
        committers.clear()
        await sf.enqueue("mail", 2)
        assert committers == [WRITER]


def test_what_was_handed_in_as_its_loop_ended_is_stored_when_the_store_closes(path):
    """The turn in which it would have been led never comes."""
    sf = Standfast(path)
    sf.enqueue_sync("mail", 1)
    loop = asyncio.new_event_loop()

    async def hand_in() -> None:
        await idle(sf)
        asyncio.ensure_future(sf.enqueue("mail", 2))  # noqa: RUF006 - nobody waits for it
        await asyncio.sleep(0)
        loop.stop()

    task = loop.create_task(hand_in())
    loop.run_forever()
    del task
    asyncio.run(sf.close())
    loop.close()

    async def look() -> int:
        async with Standfast(path) as again:
            return len(await again.jobs())

    assert asyncio.run(look()) in {1, 2}


async def test_rounds_are_led_again_once_commits_are_quick(path, committers):
    """One slow commit, as with a checkpoint, is not for good."""
    async with Standfast(path) as sf:
        await sf.enqueue("mail", 1)
        await idle(sf)
        engine_of(sf)._leader._pace = 100.0  # noqa: SLF001 - as after a disk that hung
        committers.clear()
        for payload in range(10):
            await sf.enqueue("mail", payload)
            await idle(sf)
        assert [committers[0], committers[-1]] == [WRITER, threading.current_thread().name]


async def test_nothing_is_led_while_the_wal_is_too_large(path, committers, monkeypatch):
    """Only the writer makes it smaller."""
    async with Standfast(path) as sf:
        await sf.enqueue("mail", 1)
        await idle(sf)
        monkeypatch.setattr(sqlite_engine, "LARGEST_WAL", 0)
        await sf.enqueue("mail", 2)  # each round sees how large the one before it left the WAL
        await idle(sf)
        committers.clear()
        await sf.enqueue("mail", 3)
        assert committers == [WRITER]


# --- what must not happen to a led round


def engine_of(sf: Standfast) -> SqliteEngine:
    engine = store_of(sf)._engine  # noqa: SLF001
    assert isinstance(engine, SqliteEngine)
    return engine


async def test_a_led_commit_that_the_removal_of_its_file_overtook_is_called_doubtful(path, monkeypatch):
    async with Standfast(path) as sf:
        await sf.enqueue("mail", 1)
        await idle(sf)
        in_place = Watch.in_place
        removed: list[str] = []

        def removed_just_then(watch: Watch, *, whole: bool = False) -> Any:
            found = in_place(watch, whole=whole)
            if not removed:
                removed.append(threading.current_thread().name)
                Path(path).rename(f"{path}.old")
            return found

        monkeypatch.setattr(Watch, "in_place", removed_just_then)
        with pytest.raises(StoreDamaged) as refusal:
            await sf.enqueue("mail", 2)
        assert removed == [threading.current_thread().name]
        assert not refusal.value.definite


class Interrupted(BaseException):
    """What a signal handler raises, as for Ctrl-C."""


def test_a_signal_that_breaks_off_a_led_round_leaves_it_to_the_writer(path, monkeypatch):
    """The transaction that was open is closed, and what else was in the round is stored."""
    sf = Standfast(path)
    sf.enqueue_sync("mail", 1)
    asyncio.run(idle(sf))
    begin = neighbours.begin

    def interrupted(connection: apsw.Connection, baton: Any, *, waits: bool = True) -> None:
        begin(connection, baton, waits=waits)
        monkeypatch.undo()
        raise Interrupted

    monkeypatch.setattr(leading, "SLOWEST_LED", 10.0)
    monkeypatch.setattr(sqlite_engine, "begin", interrupted)
    with pytest.raises(Interrupted):
        sf.enqueue_sync("mail", 2)
    sf.enqueue_sync("mail", 3)

    async def look() -> list[Any]:
        jobs = [each.payload for each in await sf.jobs()]
        await sf.close()
        return jobs

    assert asyncio.run(look()) == [3, 2, 1]


def handed_in(line: Line, script: Any, items: list[Any]) -> Request[Any]:
    """Have a request of the running loop wait in a line."""
    request: Request[Any] = Request(script, items, line.put, seconds=5.0)
    request.start()
    return request


async def test_no_caller_leads_what_is_not_made_for_that():
    """A sweep, or a claim of hundreds, that came in the same turn would keep the loop."""
    line = Line()
    alone = handed_in(line, intake.enqueue, [new_job()])
    assert line.lead(leading.MOST_LED) == [alone]
    handed_in(line, intake.enqueue, [new_job()])
    handed_in(line, upkeep.prune, [None])
    assert line.lead(leading.MOST_LED) == []
    assert line.waiting


async def test_what_the_writer_tries_again_keeps_its_deadline_while_others_are_led():
    line = Line()
    tried_again = handed_in(line, intake.enqueue, [new_job()])
    line.join([], 5000)
    led = handed_in(line, intake.enqueue, [new_job()])
    assert line.lead(leading.MOST_LED) == [led]
    assert {*line.unanswered(asyncio.get_running_loop())} == {tried_again, led}


@pytest.mark.parametrize(("since", "leads"), [(60.0, True), (0.0, False)])
async def test_a_commit_that_takes_a_little_longer_is_led_only_after_a_pause(
    path, committers, monkeypatch, since, leads
):
    """A disk that rested is slower; one such commit is quicker in the caller's turn, a stream of them is not."""
    async with Standfast(path) as sf:
        await sf.enqueue("mail", 1)
        await idle(sf)
        leader = engine_of(sf)._leader  # noqa: SLF001 - how quick this machine is must not matter
        monkeypatch.setattr(leading, "SLOWEST_LED", 0.001)
        monkeypatch.setattr(leading, "SLOWEST_AFTER_PAUSE", 10.0)
        monkeypatch.setattr(leading, "PAUSE", 30.0)
        leader._pace, leader._last_led = 5.0, time.monotonic() - since  # noqa: SLF001
        committers.clear()
        await sf.enqueue("mail", 2)
        assert committers == [threading.current_thread().name if leads else WRITER]


def test_a_round_drops_the_standing_claims_of_closed_loops_and_passes_over_those_of_stopped_ones():
    """Every round walks over them; a loop that is stopped may run again, a closed one never does."""
    claims, pending = StandingClaims(), list[Request[Any]]()
    closed, stopped = asyncio.new_event_loop(), asyncio.new_event_loop()
    for loop in (closed, stopped):
        request = StandingClaim(claim, [ClaimRequest("me", (QueueDemand("mail", ("mail",), 1),))], claims.put)
        request.loop = loop
        claims.put(request)
    closed.close()
    claims.take({"mail"}, pending)
    assert pending == []
    assert [request.loop for request in claims.waiting] == [stopped]
    stopped.close()
