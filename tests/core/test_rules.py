"""The rules of a queue, as a user writes them."""

from __future__ import annotations

import math

import msgspec
import pytest

from standfast.errors import ConfigurationError
from standfast.rules import (
    DEFAULTS,
    DURATIONS,
    SAMPLED_REPEATS,
    Backoff,
    QueueRules,
    Retention,
    adaptive,
    as_backoff,
    exponential,
    fixed,
    no_backoff,
    queue_rules,
    sampled,
    seconds,
)


def test_the_defaults_are_the_contract():
    assert (
        QueueRules(
            attempts=5,
            backoff=exponential(base=2, cap=300),
            lease=90.0,
            timeout=900.0,
            max_age=None,
            priority=0,
            age_boost=2.0,
            age_boost_cap=20.0,
            depth_warning=100,
            dead_warning=10,
            keep_completed=86400.0,
            keep_keys=7 * 86400.0,
        )
        == queue_rules()
        == DEFAULTS
    )


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("90s", 90),
        ("15m", 900),
        ("2h", 7200),
        ("7d", 604800),
        ("1w", 604800),
        ("1.5h", 5400),
        ("1h 30m", 5400),
        ("1h30m", 5400),
        (" 5 m ", 300),
        (12, 12),
        (0.5, 0.5),
        (None, None),
    ],
)
def test_durations(written, read):
    assert seconds(written) == read


@pytest.mark.parametrize("written", ["", "soon", "90", "5x", "-5s", "5s!", "1h and 30m", "7D", "s"])
def test_what_is_no_duration(written):
    with pytest.raises(ConfigurationError, match="is not a duration"):
        seconds(written)


@pytest.mark.parametrize("name", DURATIONS)
def test_every_duration_can_be_written_as_text(name):
    assert getattr(queue_rules(**{name: "2h"}), name) == 7200


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (exponential(base=5, cap=600), Backoff(base=5.0, cap=600.0)),
        (exponential(), Backoff(base=2.0, cap=300.0)),
        (fixed(), Backoff(table=(10.0,))),
        (adaptive(), Backoff(table=(10, 20, 45, 90, 120))),
        (no_backoff(), Backoff(table=(0,), jitter=0)),
    ],
)
def test_backoffs(backoff, expected):
    assert backoff == expected


def test_a_callable_is_published_as_its_values():
    backoff = sampled(lambda repeat: repeat * 2)
    assert backoff.table[:3] == (2.0, 4.0, 6.0)
    assert len(backoff.table) == SAMPLED_REPEATS
    assert backoff.jitter == 0


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (fixed(3), fixed(3)),
        ("exponential", exponential()),
        ("fixed", fixed()),
        ("adaptive", adaptive()),
        ("none", no_backoff()),
        ({"base": 5, "cap": 600}, exponential(base=5, cap=600)),
        (float, sampled(float)),
    ],
)
def test_a_backoff_as_written(written, read):
    assert as_backoff(written) == read
    assert queue_rules(backoff=written).backoff == read


@pytest.mark.parametrize("build", [lambda: exponential(base=0), lambda: exponential(cap=-1), lambda: fixed(math.nan)])
def test_a_backoff_that_cannot_work_is_refused(build):
    with pytest.raises(ConfigurationError, match="must be more than 0"):
        build()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"attemps": 3},
            r"unknown queue setting 'attemps' \(did you mean 'attempts'\?\); known are attempts, backoff, ",
        ),
        ({"attempts": 0}, "attempts must be at least 1, not 0"),
        ({"attempts": 2.5}, "attempts"),
        ({"attempts": "three"}, "attempts"),
        ({"lease": 0}, "lease must be more than 0, not 0"),
        ({"timeout": -1}, "timeout must be more than 0, not -1"),
        ({"max_age": math.nan}, "max_age must be more than 0, not nan"),
        ({"lease": None}, "lease"),
        ({"keep_keys": "a while"}, "'a while' is not a duration"),
        ({"backoff": "fibonacci"}, "unknown backoff 'fibonacci'; known are exponential, fixed, adaptive, none"),
        ({"backoff": 4}, r"backoff cannot be 4; write fixed\(4\) to wait 4 s each time"),
        ({"backoff": [1, 2]}, r"backoff cannot be \[1, 2\]; write fixed"),
        ({"rate": 5}, "rate cannot be 5; write how many in which time, as '100/s'"),
        ({"rate": {"limit": 5, "every": 1}}, "unknown rate setting 'every'; known are limit, per, key, burst"),
        ({"rate": {"limit": 5, "per": "m", "brust": 1}}, "unknown rate setting 'brust' .did you mean 'burst'"),
        (
            {"breaker": {"open_for": 5, "dependancy": "crm"}},
            r"unknown breaker setting 'dependancy' \(did you mean 'dependency'\?\); known are failures, open_for, ",
        ),
        ({"breaker": "crm"}, "breaker cannot be 'crm'; write False, or {'dependency': 'crm'"),
        ({"concurrency": True}, "concurrency cannot be True; write 8, or"),
        ({"concurrency": {"limits": 2}}, "unknown concurrency setting 'limits' .did you mean 'limit'"),
        ({"keep_dead": {"age": "1d", "counts": 2}}, "unknown keep_dead setting 'counts' .did you mean 'count'"),
        ({"keep_dead": True}, "keep_dead cannot be True; write '90d'"),
        ({"priority": "high"}, "priority"),
    ],
)
def test_what_cannot_work_is_refused_by_name(given, says):
    with pytest.raises(ConfigurationError, match=says):
        queue_rules(**given)


def test_only_these_may_be_unlimited():
    limits = {"timeout": None, "max_age": None, "keep_completed": None}
    assert {name: getattr(queue_rules(**limits), name) for name in limits} == limits


def test_rules_survive_the_store():
    rules = queue_rules(attempts=3, backoff=lambda repeat: repeat, timeout=None)
    assert msgspec.json.decode(msgspec.json.encode(rules), type=QueueRules) == rules


def test_rules_do_not_change():
    with pytest.raises(AttributeError):
        DEFAULTS.attempts = 7  # type: ignore[misc]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("90d", Retention(age=7776000.0)),
        (60, Retention(age=60.0)),
        ({"count": 10}, Retention(count=10)),
        ({"age": "1h", "count": 10}, Retention(age=3600.0, count=10)),
        (None, None),
    ],
)
def test_letters_are_kept_for_an_age_or_a_count(said, kept):
    assert queue_rules(keep_dead=said).keep_dead == kept


@pytest.mark.parametrize("wrong", [{}, 0, "soon", {"age": -1}, {"count": 0}, {"ages": 1}, True, [1]])
def test_a_retention_that_cannot_be_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        queue_rules(keep_dead=wrong)
