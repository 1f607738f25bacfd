"""Schedules as a user has them: added at every start, run by whichever worker is there, listed in plain words."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn
from zoneinfo import ZoneInfoNotFoundError

import pytest

from standfast import Standfast
from standfast.errors import ConfigurationError, StoreUnavailable, UnknownSchedule
from standfast.testing import FrozenClock, drain, memory
from standfast.testing.kit import InMemory
from standfast.wings.schedules import scripts
from standfast.wings.schedules import ticker as timetable
from tests.waiting import seen
from tests.worker.governing import broken

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def ran(sf: InMemory) -> list[dict[str, str]]:
    """Give the labels of the jobs that ran."""
    found: list[dict[str, str]] = []

    @sf.handler("report")
    async def report(job: Any) -> None:
        found.append(job.labels)

    return found


async def one(sf: Standfast, name: str = "s") -> dict[str, Any]:
    [found] = [each for each in await sf.schedules.list() if each["name"] == name]
    return found


async def told(sf: Standfast, *kinds: str) -> list[tuple[str, str]]:
    """Read the notices of these kinds so far."""
    await sf.enqueue("end of it")
    found: list[tuple[str, str]] = []
    async for notice in sf.subscribe(after=0):
        if notice.kind == "enqueued" and notice.queue == "end of it":
            return found
        if notice.kind in kinds:
            found.append((notice.kind, notice.data["schedule"]))
    raise AssertionError


class TestTicks:
    async def test_an_hour_later_a_tick_ran(self, sf, ran):
        await sf.schedules.add("s", "report", {"a": 1}, every="1h")
        assert not await drain(sf)
        sf.clock.advance("1h")
        assert await drain(sf) == {"report": 1}
        assert ran == [{"schedule": "s", "tick": "2026-01-01T01:00:00Z"}]
        [job] = await sf.jobs(queue="report")
        assert (job.queue_reason, job.payload) == ("scheduled_job", {"a": 1})
        assert not await drain(sf)

    async def test_intervals_do_not_drift(self, sf, ran):
        """Each tick is taken up late, and the next one comes in time."""
        await sf.schedules.add("s", "report", every=600)
        for _ in range(3):
            sf.clock.advance(607)
            await drain(sf)
        assert [each["tick"][11:] for each in ran] == ["00:10:00Z", "00:20:00Z", "00:30:00Z"]

    @pytest.mark.usefixtures("ran")
    async def test_a_wall_clock_that_is_set_does_not_move_intervals(self, sf):
        await sf.schedules.add("s", "report", every="1h")
        sf.clock.jump_wall(-86400)
        sf.clock.advance("1h")
        assert await drain(sf) == {"report": 1}
        sf.clock.jump_wall(30 * 86400)
        assert not await drain(sf)

    async def test_a_wall_clock_that_is_set_back_makes_no_two_ticks_look_like_one(self, sf, ran):
        await sf.schedules.add("s", "report", every="1h")
        for jump in (0, 7200, -7200, -3600, 0, 0, 0):
            sf.clock.jump_wall(jump)
            sf.clock.advance("1h")
            assert await drain(sf) == {"report": 1}
        ticks = [each["tick"] for each in ran]
        assert ([*dict.fromkeys(ticks)], ticks) == (ticks, sorted(ticks, key=datetime.fromisoformat))
        caught_up = "2026-01-01T06:00:00Z" if ticks[1] == "2026-01-01T04:00:00Z" else "2026-01-01T07:00:00Z"
        assert ticks[-1] == caught_up, "a clock that was set back is told rightly again once it has caught up"
        assert (await one(sf))["last_tick"].isoformat().startswith(caught_up[:-1])

    @pytest.mark.usefixtures("ran")
    async def test_what_was_asked_for_comes_with_every_job(self, sf):
        asked = {"priority": 7, "attempts": 2, "session": "s-1", "risk": "high", "labels": {"team": "a"}}
        added = await sf.schedules.add("s", "report", every=60, **asked)
        sf.clock.advance(60)
        await drain(sf)
        [job] = await sf.jobs(queue="report")
        assert (job.priority, job.max_attempts, job.session, job.risk) == (7, 2, "s-1", "high")
        assert job.labels["team"] == "a"
        assert added["options"] == asked | {"requester": "s-1"}

    @pytest.mark.usefixtures("ran")
    async def test_jitter_delays_the_job(self, sf):
        await sf.schedules.add("s", "report", every="1h", jitter="10m")
        sf.clock.advance("1h")
        await drain(sf)
        [job] = await sf.jobs(queue="report")
        late = (job.due_at - START - timedelta(hours=1)).total_seconds()
        assert 0 < late < 600
        assert job.view == "scheduled"
        sf.clock.advance(late + 0.01)
        assert await drain(sf) == {"report": 1}

    @pytest.mark.usefixtures("ran")
    async def test_ticks_run_side_by_side_only_where_that_is_asked_for(self, sf):
        await sf.schedules.add("apart", "report", every=60)
        await sf.schedules.add("beside", "report", every=60, overlap=True)
        threads = {job.thread_key for job in await ticked(sf, 60)}
        assert threads == {"ticks of\u00a0apart", None}

    @pytest.mark.usefixtures("ran")
    async def test_a_single_time_is_done_after_its_tick_and_stays_done(self, sf):
        at = START + timedelta(minutes=5)
        await sf.schedules.add("s", "report", at=at)
        sf.clock.advance(300)
        assert await drain(sf) == {"report": 1}
        again = await sf.schedules.add("s", "report", at=at)
        assert (again["done"], again["next_runs"], again["runs"]) == (True, [], 1)
        sf.clock.advance(300)
        assert not await drain(sf)
        assert await told(sf, "schedule_ended") == [("schedule_ended", "s")]

    @pytest.mark.usefixtures("ran")
    async def test_a_single_time_that_is_past_never_runs(self, sf):
        added = await sf.schedules.add("s", "report", at=START - timedelta(minutes=2))
        assert added["done"]
        assert not await drain(sf)

    @pytest.mark.usefixtures("ran")
    async def test_a_new_time_of_the_same_name_runs(self, sf):
        await sf.schedules.add("s", "report", at=START - timedelta(minutes=2))
        await sf.schedules.add("s", "report", at=START + timedelta(minutes=2))
        sf.clock.advance(120)
        assert await drain(sf) == {"report": 1}


async def ticked(sf: InMemory, seconds: float) -> list[Any]:
    """Let time pass, and have ticks enqueued that nobody runs yet."""
    sf.clock.advance(seconds)
    await timetable.Timetable(sf._store).run_due()  # noqa: SLF001
    return await sf.jobs(queue="report")


def set_clocks(sf: InMemory, span: float) -> None:
    """Set the clock that schedules go by: this machine's, or the server's."""
    sf.clock.jump_wall(span)
    sf.clock._server += span  # noqa: SLF001


class TestMissed:
    @pytest.mark.parametrize(
        ("missed", "ticks", "counted"),
        [("latest", ["05:00"], 4), ("skip", [], 5), ("all", ["01:00", "02:00", "03:00", "04:00", "05:00"], 0)],
    )
    async def test_after_a_time_without_workers(self, sf, ran, missed, ticks, counted):
        await sf.schedules.add("s", "report", cron="0 * * * *", missed=missed)
        sf.clock.advance("5h 10m")
        await drain(sf)
        assert [each["tick"][11:16] for each in ran] == ticks
        found = await one(sf)
        assert found["missed_runs"] == counted
        assert found["next_runs"][0] == START + timedelta(hours=6)
        assert await told(sf, "schedule_missed") == ([("schedule_missed", "s")] if counted else [])
        if ticks and counted:
            assert ran[0]["missed"] == "4"

    async def test_a_clock_that_jumps_ahead_misses_runs(self, sf, ran):
        await sf.schedules.add("s", "report", cron="0 * * * *")
        set_clocks(sf, 86400 + 1800)
        await drain(sf)
        assert [(each["tick"], each["missed"]) for each in ran] == [("2026-01-02T00:00:00Z", "23")]

    async def test_a_clock_that_is_set_back_runs_no_tick_twice_and_stalls_nothing(self, sf, ran):
        """It was a day ahead for a moment: what ran then is not run again, and today's ticks are."""
        await sf.schedules.add("s", "report", cron="0 */6 * * *")
        set_clocks(sf, 86400)
        await drain(sf)
        set_clocks(sf, -86400)
        assert not await drain(sf)
        for _ in range(5):
            sf.clock.advance("6h")
            await drain(sf)
        assert [each["tick"][8:13] for each in ran] == ["02T00", "01T06", "01T12", "01T18", "02T06"]


class TestAdding:
    @pytest.mark.usefixtures("ran")
    async def test_adding_it_at_every_start_changes_nothing(self, sf, monkeypatch):
        first = await sf.schedules.add("s", "report", every="1h")
        sf.clock.advance("50m")
        with monkeypatch.context() as reading:
            reading.setattr(scripts, "put", None)  # nothing is even to be written
            assert await sf.schedules.add("s", "report", every=timedelta(hours=1)) == first
        assert await told(sf, "schedule_added", "schedule_changed") == [("schedule_added", "s")]
        sf.clock.advance("10m")
        assert await drain(sf) == {"report": 1}

    @pytest.mark.usefixtures("ran")
    async def test_a_pause_survives_a_start_and_another_payload(self, sf):
        await sf.schedules.add("s", "report", {"v": 1}, every=60)
        await sf.schedules.pause("s")
        assert (await sf.schedules.add("s", "report", {"v": 2}, every=60))["paused"]
        sf.clock.advance(60)
        assert not await drain(sf)
        kinds = ("schedule_added", "schedule_paused", "schedule_changed")
        assert [kind for kind, _ in await told(sf, *kinds)] == list(kinds)

    @pytest.mark.usefixtures("ran")
    async def test_what_comes_while_paused_is_left_out(self, sf):
        await sf.schedules.add("s", "report", every=600, missed="all")
        await sf.schedules.add("once", "report", at=START + timedelta(minutes=20))
        await sf.schedules.pause("s")
        await sf.schedules.pause("once")
        sf.clock.advance(3610)
        await sf.schedules.resume("s")
        await sf.schedules.resume("once")
        assert not await drain(sf)
        assert (await one(sf, "once"))["done"]
        sf.clock.advance(590)
        assert await drain(sf) == {"report": 1}
        assert (await one(sf))["missed_runs"] == 0

    @pytest.mark.usefixtures("ran")
    async def test_a_removed_one_runs_no_more(self, sf):
        await sf.schedules.add("s", "report", every=60)
        await sf.schedules.remove("s")
        sf.clock.advance(60)
        assert not await drain(sf)
        assert await sf.schedules.list() == []

    @pytest.mark.parametrize("verb", ["remove", "pause", "resume"])
    async def test_a_name_nobody_knows_is_an_error(self, sf, verb):
        with pytest.raises(UnknownSchedule, match="no schedule is called 'nigthly'"):
            await getattr(sf.schedules, verb)("nigthly")

    @pytest.mark.usefixtures("ran")
    async def test_it_is_listed_in_plain_words(self, sf):
        await sf.schedules.add("s", "report", {"a": 1}, cron="0 9 * * 1-5", tz="Europe/Berlin")
        found = await one(sf)
        assert found["when"] == "every weekday at 09:00 Europe/Berlin"
        assert [run.isoformat() for run in found["next_runs"]] == [
            "2026-01-01T09:00:00+01:00",
            "2026-01-02T09:00:00+01:00",
            "2026-01-05T09:00:00+01:00",
        ]
        assert (found["payload"], found["paused"], found["last_tick"]) == ({"a": 1}, False, None)

    @pytest.mark.parametrize(
        ("asked", "why"),
        [
            ({}, "one of cron, every and at, not none"),
            ({"every": 60, "cron": "* * * * *"}, "not cron, every"),
            ({"cron": "0 0 30 2 *"}, "cannot be read"),
            ({"cron": "* * * * *", "tz": "Europe/Belin"}, r"did you mean 'Europe/Berlin'\?"),
            ({"cron": "* * * * *", "tz": "../../etc/passwd"}, "no time zone is called"),
            ({"every": 0.5}, "from 1 s"),
            ({"every": "often"}, "not a duration"),
            ({"every": True}, "must be a length of time"),
            ({"every": 60, "jitter": -1}, "jitter must be"),
            ({"every": 60, "missed": "never"}, "unknown missed 'never'"),
            ({"at": "tomorrow"}, "at must be a time"),
            ({"at": "2026-03-29T02:30", "tz": "Europe/Berlin"}, "2026-03-29 02:30:00 does not exist in Europe/Berlin"),
            ({"every": 60, "idempotency_key": "k"}, "takes no idempotency_key"),
            ({"every": 60, "delay": 5}, "takes no delay"),
            ({"every": 60, "expires": 5}, "takes no expires"),
            ({"every": 60, "labels": {"tick": "x"}}, "the schedule's own"),
            ({"every": 60, "thread_key": "k", "overlap": True}, "give one"),
            ({"every": 60, "prority": 1}, "unknown option 'prority'"),
        ],
    )
    async def test_what_cannot_be_is_refused_and_nothing_is_written(self, asked, why):
        with pytest.raises(ConfigurationError, match=why):
            await REFUSING.schedules.add("s", "report", **asked)

    @pytest.mark.parametrize("at", ["2026-07-01T09:00", datetime(2026, 7, 1, 9), datetime(2026, 7, 1, 7, tzinfo=UTC)])  # noqa: DTZ001 - that is the point
    async def test_a_time_without_a_zone_is_meant_in_tz(self, sf, at):
        added = await sf.schedules.add("s", "report", at=at, tz="Europe/Berlin")
        assert added["at"] == datetime(2026, 7, 1, 7, tzinfo=UTC)
        assert added["when"] == "once at 2026-07-01 09:00:00 Europe/Berlin"

    async def test_a_machine_without_zone_data_is_told_what_to_install(self, sf, monkeypatch):
        monkeypatch.setattr("zoneinfo.ZoneInfo", _no_data)
        monkeypatch.setattr("zoneinfo.available_timezones", set)
        with pytest.raises(ConfigurationError, match="pip install tzdata"):
            await sf.schedules.add("s", "report", cron="* * * * *", tz="Europe/Berlin")
        await sf.schedules.add("s", "report", cron="* * * * *")

    @pytest.mark.usefixtures("ran")
    async def test_a_schedule_that_cannot_be_reckoned_here_leaves_the_others_alone(self, sf, monkeypatch, caplog):
        await sf.schedules.add("bad", "report", cron="* * * * *", tz="Europe/Berlin")
        await sf.schedules.add("good", "report", cron="* * * * *")
        monkeypatch.setattr("zoneinfo.ZoneInfo", _no_data)
        sf.clock.advance(60)
        assert await drain(sf) == {"report": 1}
        assert "schedule bad cannot run here" in caplog.text


REFUSING = InMemory("/nonexistent/never opened.db", clock=FrozenClock())
"""What is refused is refused before a store is opened."""


def _no_data(name: str) -> None:
    raise ZoneInfoNotFoundError(name)


async def test_the_letter_of_a_tick_can_be_brought_elsewhere(sf):
    """Its thread has a key that no caller can give."""
    broken(sf, "report")
    await sf.schedules.add("s", "report", every=60)
    sf.clock.advance(60)
    await drain(sf)
    file = io.BytesIO()
    await sf.dead_letters.export(file)
    file.seek(0)
    async with memory() as other:
        assert (await other.dead_letters.import_(file, by="ann", reason="moved"))["imported"] == 1
        [letter] = await other.dead_letters.list()
        assert letter.thread_key == "ticks of\u00a0s"
        with pytest.raises(ConfigurationError, match="thread_key must be printable"):
            await other.enqueue("report", thread_key=letter.thread_key)


class TestHealth:
    @pytest.mark.usefixtures("ran")
    async def test_a_run_that_does_not_happen_is_an_issue(self, sf):
        await sf.schedules.add("s", "report", every=60, missed="skip")
        sf.clock.advance(119)
        assert (await sf.health())["issues"] == []
        sf.clock.advance(2)
        assert (await sf.health())["issues"] == ["schedule s: its run is 1 min 1 s overdue, and no worker is alive"]
        await drain(sf)
        assert (await sf.health())["issues"] == []

    @pytest.mark.usefixtures("ran")
    async def test_a_paused_queue_is_an_issue_of_its_schedules(self, sf):
        await sf.schedules.add("s", "report", every=3600)
        await sf.queues.pause("report")
        assert (await sf.health())["issues"] == ["schedule s: its queue report is paused"]
        await sf.schedules.pause("s")
        assert (await sf.health())["issues"] == []


class TestAtWork:
    async def test_a_worker_wakes_for_what_is_added_and_for_each_tick(self, disk: Standfast):
        """It sleeps when the schedule comes, and would look by itself only after ten seconds."""
        done: list[dict[str, str]] = []

        @disk.handler("report")
        async def report(job: Any) -> None:
            done.append(job.labels)

        async with disk.worker() as worker:
            await seen(lambda: worker._timetable._wait == timetable.LONGEST_WAIT)  # noqa: SLF001 - it has looked
            await disk.schedules.add("s", "report", at=datetime.now(UTC) + timedelta(seconds=0.2))
            await seen(lambda: done, within=5)
        assert [each["schedule"] for each in done] == ["s"]
        assert (await one(disk))["done"]

    async def test_a_look_soon_after_the_clock_was_set_back_takes_what_came_since(self, sf):
        """It may look ten seconds after, and a tick may have come within them."""
        table = timetable.Timetable(sf._store)  # noqa: SLF001
        await sf.schedules.add("s", "report", cron="0 * * * *")
        for seconds in (3590, 5410, -5405):  # 00:59:50, then 02:30:00 by mistake, then 00:59:55
            set_clocks(sf, seconds)
            await sf.enqueue("noise")  # what a server's time is, is heard with a write
            if seconds > 0:
                await table.run_due()
        assert [job.labels["tick"][11:16] for job in await sf.jobs(queue="report")] == ["02:00"]
        sf.clock.advance(8)
        assert table._seen is not None  # noqa: SLF001
        table._seen = (table._seen[0] - 8, table._seen[1])  # noqa: SLF001 - as if so much time had really passed
        await sf.enqueue("noise")
        await table.run_due()
        [job] = await sf.jobs(queue="report")
        assert job.labels["tick"][11:16] == "01:00"
        assert job.coalesced is not None
        assert (await one(sf))["next_runs"][0] == START + timedelta(hours=2)

    @pytest.mark.usefixtures("ran")
    async def test_a_store_that_is_away_for_a_moment_does_not_end_the_timetable(self, sf, monkeypatch):
        table = timetable.Timetable(sf._store)  # noqa: SLF001
        await sf.schedules.add("s", "report", every=3600)
        with monkeypatch.context() as broken:
            broken.setattr(scripts, "due", _away)
            await table.look()
        assert table._wait == timetable.AFTER_TROUBLE  # noqa: SLF001
        await table.look()
        assert table._wait == timetable.LONGEST_WAIT  # noqa: SLF001


def _away(*_: float) -> NoReturn:
    raise StoreUnavailable("gone for a moment", definite=True)
