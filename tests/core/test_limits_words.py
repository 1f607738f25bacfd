"""Limits, rates and breakers as arithmetic: which candidates may start, and what a gate is afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import ConfigurationError
from standfast.rules import DEFAULTS, Breaker, Rate, queue_rules
from standfast.wings.limits import words as gates
from standfast.wings.limits.words import Candidate, Circuit, DependencyAnswer, Room, Row

A, B, RATE, BREAKER = "limit:mail:a", "limit:mail:b", "rate:mail:a", "breaker:crm"


def admitted(candidates: list[Candidate], slots: int = 9, **free: int) -> tuple[Any, ...]:
    rooms = {
        A: Room(free.get("a", 0)),
        B: Room(free.get("b", 0)),
        RATE: Room(free.get("rate", 0), stays=False),
        BREAKER: Room(free.get("breaker", 0)),
        "limit:mail": Room(free.get("whole", 0), parks=False),
    }
    return tuple(gates.admit(candidates, rooms, slots))


@pytest.mark.parametrize(
    ("candidates", "free", "expected"),
    [
        ([Candidate(1, (A,))], {"a": 1}, ([(1, [A])], [], [])),
        ([Candidate(1, (A,))], {}, ([], [(1, A, [])], [])),
        (
            [Candidate(1, (A,)), Candidate(2, (A,)), Candidate(3, (B,))],
            {"a": 1, "b": 1},
            ([(1, [A]), (3, [B])], [(2, A, [])], []),
        ),
        # Who has a ticket passes a full gate.
        ([Candidate(1, (A,)), Candidate(2, (A,), frozenset({A}))], {}, ([(2, [A])], [(1, A, [])], [])),
        # At a gate that the whole queue passes nobody is parked.
        ([Candidate(1, ("limit:mail",)), Candidate(2, ("limit:mail",))], {"whole": 1}, ([(1, ["limit:mail"])], [], [])),
        # A token is spent, not held; a place is given up by who must wait elsewhere, a token is kept.
        ([Candidate(1, (RATE, A))], {"a": 1, "rate": 1}, ([(1, [A])], [], [])),
        ([Candidate(1, (RATE, A), frozenset({A}))], {"a": 0}, ([], [(1, RATE, [])], [A])),
        ([Candidate(1, (RATE, A), frozenset({RATE}))], {}, ([], [(1, A, [RATE])], [])),
        # The probe of a half-open breaker is one job, and holds it.
        (
            [Candidate(1, (BREAKER,)), Candidate(2, (BREAKER,))],
            {"breaker": 1},
            ([(1, [BREAKER])], [(2, BREAKER, [])], []),
        ),
        # Nothing is taken of one gate by who is stopped at the next.
        ([Candidate(1, (A, B)), Candidate(2, (A,))], {"a": 1}, ([(2, [A])], [(1, B, [])], [])),
        # What is in other hands stays where it is.
        ([Candidate(1, ("limit:mail:busy",)), Candidate(2, (A,))], {"a": 1}, ([(2, [A])], [], [])),
        # A place of a gate that the rules do not name any more is given up.
        ([Candidate(1, (), frozenset({A}))], {}, ([(1, [])], [], [A])),
    ],
)
def test_who_may_start(candidates, free, expected):
    assert admitted(candidates, **free) == expected


def test_no_more_start_than_there_are_slots_and_the_rest_is_left_alone():
    assert admitted([Candidate(n, ()) for n in range(4)], slots=2) == ([(0, []), (1, [])], [], [])


@pytest.mark.parametrize(
    ("payload", "key"),
    [
        ({"tenant": "acme"}, "acme"),
        ({"tenant": 7}, "7"),
        ({"tenant": "7"}, "7"),
        ({"tenant": None}, ""),
        ({}, ""),
        ("text", ""),
        (None, ""),
        ({"tenant": ""}, '""'),
        ({"tenant": True}, "true"),
        ({"tenant": {"b": 1, "a": 2}}, '{"a":2,"b":1}'),
        ([{"tenant": "first"}, {"tenant": "second"}], "first"),
    ],
)
def test_what_a_job_is_counted_by(payload, key):
    assert gates.key_in(payload, "payload.tenant") == key


def test_a_long_key_is_hashed_and_a_deep_one_is_found():
    assert gates.key_in({"t": "x" * 201}, "payload.t").startswith("sha256-")
    assert gates.key_in({"a": {"b": "c"}}, "payload.a.b") == "c"


def test_no_two_queues_share_a_gate():
    assert gates.of_queue("limit", "a:b") != gates.of_key("limit", "a", "b")
    assert gates.queue_of(gates.of_key("rate", "a:b%", "x:y")) == "a:b%"


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("https://Shop.example/pay?x=1", "https://shop.example:443"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("nonsense", None),
        (7, None),
    ],
)
def test_a_request_depends_on_scheme_host_and_port(url, named):
    assert gates.destination({"url": url}) == named
    assert gates.breaker_of(Breaker(dependency="crm"), {"url": url}) == (named and f"breaker:{named}")
    assert gates.breaker_of(None, {"url": url}) is None


# --- rates


@given(
    st.integers(1, 200),
    st.sampled_from([1.0, 60.0]),
    st.one_of(st.none(), st.integers(1, 20)),
    st.lists(st.floats(0.0, 0.7), max_size=60),
)
def test_no_window_sees_more_starts_than_the_rate(limit, per, burst, pauses):
    """However long somebody waits between two looks: all that is allowed is taken each time."""
    rate = Rate(limit=limit, per=per, burst=None if burst is None else min(burst, limit))
    meter, now, starts = gates.meter(None, rate), 1000.0, []
    for pause in pauses:
        now += pause * per / limit * 5
        tokens = meter.tokens(now)
        meter = meter.spent(now, tokens)
        starts += [now] * tokens
    for first in starts:
        assert sum(first <= start < first + per - 1e-4 for start in starts) <= limit


def test_a_token_comes_when_it_was_said_to():
    meter = gates.meter(None, Rate(limit=5)).spent(100.0, 1)
    assert meter.tokens(100.0) == 0
    assert meter.next_at(100.0) == pytest.approx(100.2)
    assert meter.tokens(meter.next_at(100.0)) == 1


def test_a_meter_from_another_clock_holds_nothing_up_for_long():
    row = gates.metered(Row(RATE, "rate"), gates.Meter(9e9, 0.2, 1), 100.0, waited_for=False)
    assert gates.meter(row, Rate(limit=5)).next_at(100.0) == pytest.approx(100.2)


# --- what breaks

NO, YES, SILENT = (DependencyAnswer(answers, 3, 30.0) for answers in (False, True, None))


def heard(*words: DependencyAnswer, row: Row | None = None, now: float = 100.0, probe: int | None = None) -> Row:
    row = row or Row(BREAKER, "breaker")
    for word in words:
        row = gates.after(row, word, now, probe=probe)
    return row


def state(row: Row) -> tuple[str, int, float | None]:
    return gates.circuit(row).state, row.used, row.opens_at


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([NO, NO], ("closed", 2, None)),
        ([NO, NO, NO], ("open", 3, 130.0)),
        ([NO, NO, YES, NO, NO], ("closed", 2, None)),
        ([NO, NO, SILENT, NO], ("open", 3, 130.0)),
        ([NO, NO, NO, NO], ("open", 4, 130.0)),
        ([NO, NO, NO, YES], ("recovering", 0, 100.0)),
        ([NO._replace(enough=1, open_for=5.0)], ("open", 1, 105.0)),
    ],
)
def test_failures_in_a_row_open_and_an_answer_closes(words, expected):
    assert state(heard(*words)) == expected


def test_each_probe_that_fails_doubles_the_wait_up_to_a_bound():
    row = heard(NO, NO, NO)
    waits = []
    for n in range(1, 8):
        row = gates.after(gates.probing(row, n, 200.0), NO, 200.0, probe=n)
        waits.append((row.opens_at or 0.0) - 200.0)
    assert waits == [60.0, 120.0, 240.0, 480.0, 600.0, 600.0, 600.0]
    assert (row.holder, gates.circuit(row).last) == (None, 7)


def test_a_probe_that_says_nothing_makes_way_for_the_next():
    row = heard(SILENT, row=gates.probing(heard(NO, NO, NO), 7, 200.0), now=210.0, probe=7)
    assert (state(row), row.holder) == (("open", 3, 210.0), None)


def test_only_a_half_open_breaker_has_a_place_and_it_is_one():
    opened = heard(NO, NO, NO)
    rooms = [gates.breaker_room(row) for row in (opened, gates.half_open(opened, 1.0), gates.probing(opened, 1, 1.0))]
    assert [room and room.free for room in rooms] == [0, 1, 0]
    assert gates.breaker_room(None) is None
    assert gates.breaker_room(heard(NO)) is None


def test_recovery_grows():
    row = heard(NO, NO, NO, YES)
    batches = []
    for _ in range(4):
        batches.append(gates.circuit(row).batch)
        row = gates.next_batch(row, 100.0)
    assert batches == [8, 16, 32, 64]


def test_a_breaker_opens_before_a_lone_job_has_spent_the_attempts_it_has_by_default():
    assert Breaker().failures < DEFAULTS.attempts


def test_what_a_breaker_remembers_survives_being_written_down():
    assert gates.circuit(heard(NO, NO, NO)) == Circuit("open", 100.0, 30.0)


# --- rules


@pytest.mark.parametrize(
    ("given_", "field", "expected"),
    [
        ({"concurrency": 8}, "concurrency", (8, None)),
        ({"concurrency": {"key": "payload.tenant", "limit": 2}}, "concurrency", (2, "payload.tenant")),
        ({"rate": "100/s"}, "rate", (100, 1.0)),
        ({"rate": "60 / m"}, "rate", (60, 60.0)),
        ({"rate": {"limit": 5, "per": "m"}}, "rate", (5, 60.0)),
        ({"rate": {"limit": 5, "per": "90s"}}, "rate", (5, 90.0)),
        ({"breaker": False}, "breaker", None),
        ({"breaker": True}, "breaker", (4, 5.0)),
        ({"breaker": {"open_for": "2m", "failures": 9}}, "breaker", (9, 120.0)),
    ],
)
def test_rules_are_read_as_they_are_written(given_, field, expected):
    read = getattr(queue_rules(**given_), field)
    assert (read and tuple(getattr(read, name) for name in read.__struct_fields__[:2])) == expected


@pytest.mark.parametrize(
    "given_",
    [
        {"concurrency": 0},
        {"concurrency": True},
        {"concurrency": {"key": "tenant", "limit": 2}},
        {"concurrency": {"key": "payload.tenant"}},
        {"rate": "100"},
        {"rate": "0/s"},
        {"rate": {"limit": 5, "burst": 6}},
        {"rate": {"limit": 5, "every": 1}},
        {"gate": "ftp://x"},
        {"breaker": {"failures": 0}},
        {"breaker": {"dependency": " "}},
        {"breaker": "crm"},
    ],
)
def test_rules_that_could_not_work_are_refused(given_):
    with pytest.raises(ConfigurationError):
        queue_rules(**given_)


# --- handlers whose probes say no

KEY = "probe:mail:send"
HOLDS, AGAIN = gates.SAID_HOLDS, gates.SAID_AGAIN_AFTER


def said(row: Row) -> tuple[Any, ...]:
    found = gates.disabled(row)
    return found.since, found.why, found.up, row.opens_at


def test_a_no_shuts_and_lapses_unless_it_is_said_again():
    shut = gates.denied(None, KEY, "HTTP 503", 100.0)
    assert said(shut) == (100.0, "HTTP 503", False, 100.0 + HOLDS)
    assert gates.denied(shut, KEY, "HTTP 503", 101.0) is shut, "nothing new is written"
    assert said(gates.denied(shut, KEY, "HTTP 500", 101.0)) == (100.0, "HTTP 500", False, 101.0 + HOLDS)
    later = 100.0 + AGAIN
    assert said(gates.denied(shut, KEY, "HTTP 503", later)) == (100.0, "HTTP 503", False, later + HOLDS)


def test_a_yes_opens_and_a_no_of_another_process_does_not_shut_it_then():
    up = gates.restored(gates.denied(None, KEY, "HTTP 503", 100.0), 130.0)
    assert said(up) == (100.0, "HTTP 503", True, 130.0 + HOLDS)
    assert not gates.also_denied(gates.disabled(up), 131.0), "its own no is over"
    assert gates.restored(up, 131.0) is up
    assert gates.restored(up, 130.0 + AGAIN) is up, "nobody says no: it lapses, and is forgotten"
    both = gates.denied(up, KEY, "HTTP 500", 140.0)
    assert said(both) == (100.0, "HTTP 500", True, 130.0 + HOLDS)
    assert gates.also_denied(gates.disabled(both), 141.0)
    assert gates.denied(both, KEY, "HTTP 500", 141.0) is both
    assert said(gates.restored(both, 130.0 + AGAIN)) == (100.0, "HTTP 500", True, 130.0 + AGAIN + HOLDS)
