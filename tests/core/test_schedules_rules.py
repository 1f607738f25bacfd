"""When schedules run: tables of times, the nights when clocks are set, and what is made up for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.errors import ConfigurationError
from standfast.wings.schedules import rules as timetable
from standfast.wings.schedules import wording as words
from standfast.wings.schedules.rules import (
    Cron,
    Every,
    LateSchedule,
    Once,
    check_cron,
    earlier_tick,
    issues,
    plan,
    spread,
)

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")
NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def at(text: str, zone: object = UTC) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()  # type: ignore[arg-type]


def runs(cron: str, zone: ZoneInfo, day: str, days: int) -> list[str]:
    """Give the runs within so many days, as the zone's own clock shows them."""
    times, tick, found = Cron(cron, zone), at(day, zone) - 1, []
    end = datetime.fromisoformat(day).replace(tzinfo=zone) + timedelta(days=days)
    while (following := times.after(tick)) is not None and following < end.timestamp():
        found.append(datetime.fromtimestamp(following, zone).isoformat()[5:])
        tick = following
    return found


@pytest.mark.parametrize(
    ("zone", "night", "expected"),
    [
        (BERLIN, "2026-03-28", ["03-28T02:30:00+01:00", "03-29T03:00:00+02:00", "03-30T02:30:00+02:00"]),
        (BERLIN, "2026-10-24", ["10-24T02:30:00+02:00", "10-25T02:30:00+02:00", "10-26T02:30:00+01:00"]),
        (NEW_YORK, "2026-03-07", ["03-07T02:30:00-05:00", "03-08T03:00:00-04:00", "03-09T02:30:00-04:00"]),
        (NEW_YORK, "2026-10-31", ["10-31T02:30:00-04:00", "11-01T02:30:00-05:00", "11-02T02:30:00-05:00"]),
    ],
)
def test_a_nightly_time_runs_once_in_every_night(zone, night, expected):
    """Where 02:30 is left out it runs when the clocks have gone forward; where it comes twice, at the first."""
    assert runs("30 2 * * *", zone, night, 3) == expected


def test_who_looks_in_the_hour_that_comes_twice_does_not_find_what_is_past():
    """It is 02:10 for the second time, and 02:30 was for the first."""
    second = at("2026-10-25T01:10")
    assert Cron("30 2 * * *", BERLIN).after(second) == at("2026-10-26T02:30", BERLIN)


def test_in_new_york_the_hour_from_one_comes_twice():
    expected = ["10-31T01:30:00-04:00", "11-01T01:30:00-04:00", "11-02T01:30:00-05:00"]
    assert runs("30 1 * * *", NEW_YORK, "2026-10-31", 3) == expected


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)])
def test_what_runs_every_hour_runs_as_often_as_the_day_has_hours(day, hours):
    assert len(runs("0 * * * *", BERLIN, day, 1)) == hours


def test_an_interval_knows_no_zone():
    """Across the night in which a clock is set, a day is 24 hours."""
    start = at("2026-03-28T12:00", BERLIN)
    assert Every(86400.0, start).after(start) == start + 86400


CRONS = st.sampled_from(
    [
        "30 2 * * *",
        "0 3 * * *",
        "15,45 2 * * *",
        "*/20 * * * *",
        "0 1-4 * * *",
        "30 1 * * 0",
        "*/30 2 * * *",
        "5 */2 * * *",
    ]
)
NIGHTS = st.sampled_from(
    [(BERLIN, "2026-03-28"), (BERLIN, "2026-10-24"), (NEW_YORK, "2026-03-07"), (NEW_YORK, "2026-10-31")]
)


@settings(max_examples=40)
@given(CRONS, NIGHTS, st.integers(0, 2 * 86400))
def test_where_one_begins_to_look_makes_no_difference(cron, night, offset):
    """A worker that starts in the middle of such a night finds the next run that all others wait for."""
    zone, day = night
    times, begin = Cron(cron, zone), at(day, zone)
    walked, tick = [], begin - 1
    while tick <= begin + 3 * 86400:
        tick = times.after(tick) or 0.0
        walked.append(tick)
    assert walked == sorted(set(walked))
    assert times.after(begin + offset) == next(each for each in walked if each > begin + offset)


@settings(max_examples=60)
@given(
    st.floats(1, 1e6),
    st.floats(1e9, 2e9),
    st.floats(0, 1e7),
    st.integers(1, 5),
)
def test_intervals_lie_on_one_grid(span, anchor, later, number):
    """However the quotient is rounded, a tick is neither before its moment nor skipped, and is found again."""
    times, moment = Every(span, anchor), anchor + later
    tick = times.after(moment)
    assert tick > moment
    assert tick - moment <= span * 1.000001
    assert times.after(tick) > tick
    first = times.after(anchor)
    if first <= moment:
        due = times.due(first, moment, number)
        assert len(due.last) == min(number, due.number)
        assert due.last[-1] <= moment < times.after(due.last[-1])


MINUTES = Cron("* * * * *", UTC)


@pytest.mark.parametrize(
    ("missed", "late", "ran", "left_out"),
    [
        ("latest", 0, [0], 0),
        ("skip", 0, [0], 0),
        ("all", 0, [0], 0),
        ("latest", 59, [0], 0),
        ("skip", 59, [0], 0),
        ("latest", 150, [120], 2),
        ("skip", 150, [120], 2),
        ("all", 150, [0, 60, 120], 0),
    ],
)
def test_what_is_made_up_for_when_ticks_come_every_minute(missed, late, ran, left_out):
    decided = plan(MINUTES, NOW, NOW + late, missed)
    assert [tick - NOW for tick in decided.runs] == ran
    assert decided.missed == left_out
    assert decided.following == NOW + late // 60 * 60 + 60


HOURS = Every(3600.0, NOW)


@pytest.mark.parametrize(
    ("missed", "late", "ran", "left_out"),
    [
        ("skip", 60, [1], 0),
        ("skip", 61, [], 1),
        ("latest", 61, [1], 0),
        ("skip", 2 * 3600 + 61, [], 3),
        ("skip", 2 * 3600 + 60, [3], 2),
        ("latest", 2 * 3600 + 61, [3], 2),
        ("all", 2 * 3600 + 61, [1, 2, 3], 0),
    ],
)
def test_a_tick_that_is_more_than_a_minute_late_is_missed(missed, late, ran, left_out):
    decided = plan(HOURS, NOW + 3600, NOW + 3600 + late, missed)
    assert [(tick - NOW) / 3600 for tick in decided.runs] == ran
    assert decided.missed == left_out
    assert decided.following == NOW + 3600 * (2 + late // 3600)


@pytest.mark.parametrize("times", [Cron("* * * * *", UTC), Every(60.0, NOW - 60)])
def test_all_has_a_bound_and_counts_the_rest(times):
    decided = plan(times, NOW, NOW + 60 * 999, "all")
    assert len(decided.runs) == timetable.MOST_CAUGHT_UP
    assert decided.runs[-1] == NOW + 60 * 999
    assert decided.missed == 900


@pytest.mark.parametrize("missed", ["latest", "all"])
def test_after_years_only_the_end_is_looked_for(missed):
    """It is counted up to a bound, and what runs is still the last of all."""
    end = at("2028-02-29T12:00")
    decided = plan(MINUTES, NOW, end + 30, missed)
    assert decided.runs[-1] == end
    assert decided.runs == sorted(set(decided.runs))
    assert decided.missed == timetable.MOST_COUNTED - len(decided.runs)
    assert decided.following == end + 60


def test_a_single_time_comes_once():
    times = Once(NOW)
    assert times.after(NOW - 1) == NOW
    assert plan(times, NOW, NOW + 3600, "latest") == ([NOW], 0, None)
    assert plan(times, NOW, NOW + 3600, "skip") == ([], 1, None)


def test_a_run_that_the_zone_does_not_have_any_more_is_run_all_the_same():
    """The rules of a zone changed while it was waited for."""
    decided = plan(Cron("0 9 * * *", UTC), NOW + 8.5 * 3600, NOW + 8.5 * 3600, "latest")
    assert decided.runs == [NOW + 8.5 * 3600]
    assert decided.following == NOW + 9 * 3600


def test_a_clock_that_was_set_back_brings_an_earlier_tick():
    assert earlier_tick(MINUTES, NOW + 3600, NOW) == NOW + 60
    assert earlier_tick(MINUTES, NOW + 60, NOW) is None
    assert earlier_tick(MINUTES, NOW - 60, NOW) is None
    assert earlier_tick(Once(NOW), None, NOW - 9) is None


@pytest.mark.parametrize(
    ("cron", "why"),
    [
        ("61 * * * *", "bad minute"),
        ("0 0 30 2 *", "a day that none of its months has"),
        ("0 0 31 4,6 *", "a day that none of its months has"),
        ("* * * *", "wrong number of fields"),
        ("", "wrong number of fields"),
        ("0 0 * * L/2", "cannot be read"),
        ("*/0 * * * *", "bad minute"),
    ],
)
def test_a_cron_expression_that_cannot_be_is_refused_with_the_reason(cron, why):
    with pytest.raises(ConfigurationError, match=why):
        check_cron(cron, UTC, NOW)


@settings(max_examples=60)
@given(st.text(alphabet="0123456789*/,-#LWMON ", max_size=25))
def test_any_text_is_taken_or_refused(text):
    try:
        check_cron(text, UTC, NOW)
    except ConfigurationError:
        return
    assert Cron(text, UTC).after(NOW)


def test_jitter_is_the_same_everywhere_and_ends_before_the_next_tick():
    drawn = [spread("nightly", NOW + n, NOW + n + 60, 600) for n in range(200)]
    assert drawn == [spread("nightly", NOW + n, NOW + n + 60, 600) for n in range(200)]
    assert 0 <= min(drawn) < 5
    assert 55 < max(drawn) < 60
    assert len(set(drawn)) == 200
    assert spread("other", NOW, None, 600) != spread("nightly", NOW, None, 600)
    assert spread("nightly", NOW, NOW + 60, 0) == 0


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("0 9 * * 1-5", "every weekday at 09:00 Europe/Berlin"),
        ("0 9 * * MON-FRI", "every weekday at 09:00 Europe/Berlin"),
        ("30 2 * * *", "every day at 02:30 Europe/Berlin"),
        ("0 9,17 * * *", "every day at 09:00 and 17:00 Europe/Berlin"),
        ("0 9 * * 1,3,5", "every Monday, Wednesday and Friday at 09:00 Europe/Berlin"),
        ("0 9 * * sun", "every Sunday at 09:00 Europe/Berlin"),
        ("0 9 * * 7", "every Sunday at 09:00 Europe/Berlin"),
        ("0 9 * * 0,6", "every Saturday and Sunday at 09:00 Europe/Berlin"),
        ("0 0 1 * *", "on day 1 of every month at 00:00 Europe/Berlin"),
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("*/7 * * * *", "cron */7 * * * * Europe/Berlin"),
        ("15 * * * *", "every hour at minute 15"),
        ("0 */6 * * *", "every 6 hours at minute 0 Europe/Berlin"),
        ("0 9 1 * 1", "cron 0 9 1 * 1 Europe/Berlin"),
        ("0 9 * 6 *", "cron 0 9 * 6 * Europe/Berlin"),
        ("0 9 * * 1#2", "cron 0 9 * * 1#2 Europe/Berlin"),
        ("* * * * * *", "cron * * * * * * Europe/Berlin"),
    ],
)
def test_a_cron_expression_in_plain_words(cron, said):
    check_cron(cron, BERLIN, NOW)
    assert words.cron(cron, "Europe/Berlin") == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (1, "every second"),
        (90, "every 90 seconds"),
        (60, "every minute"),
        (900, "every 15 minutes"),
        (3600, "every hour"),
        (86400, "every 24 hours"),
        (1.5, "every 1.5 seconds"),
    ],
)
def test_an_interval_in_plain_words(seconds, said):
    assert words.interval(seconds) == said


def test_what_health_says_of_schedules():
    late = [
        LateSchedule("nightly", "report", 61.0, queue_paused=False),
        LateSchedule("often", "mail", 3.0, queue_paused=True),
    ]
    assert list(issues(late, workers=False)) == [
        "schedule nightly: its run is 1 min 1 s overdue, and no worker is alive",
        "schedule often: its queue mail is paused",
    ]
    [stuck] = issues(late[:1], workers=True)
    assert "though workers are alive" in stuck
