"""How long a repeat waits."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.failure.retry_after import honour_retry_after, read_retry_after
from standfast.rules import Backoff, adaptive, exponential, fixed, no_backoff, sampled
from standfast.spine.backoff import LONGEST_DELAY, delay

REPLIED = "Wed, 21 Oct 2026 07:28:00 GMT"

positive = st.floats(0, exclude_min=True, allow_infinity=False)
backoffs = st.builds(exponential, base=positive, cap=positive) | st.just(adaptive()) | st.builds(fixed, positive)
repeats = st.integers(1, 200) | st.integers(1, 10**6)
rolls = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (exponential(base=2, cap=300), [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]),
        (exponential(base=5, cap=600), [5, 10, 20, 40, 80, 160, 320, 600, 600]),
        (exponential(base=500, cap=300), [300, 300]),
        (adaptive(), [10, 20, 45, 90, 120, 120, 120]),
        (fixed(10), [10, 10, 10]),
        (no_backoff(), [0, 0, 0]),
        (sampled(lambda repeat: repeat * 7), [7, 14, 21]),
        (Backoff(), [0, 0]),
    ],
)
def test_each_repeat_without_chance(backoff, expected):
    assert [delay(backoff, repeat, 0.0) for repeat in range(1, len(expected) + 1)] == expected


@pytest.mark.parametrize(
    ("jitter", "roll", "expected"),
    [(0.1, 0.0, 100), (0.1, 0.5, 95), (0.1, 1.0, 90), (1.0, 0.75, 25), (0.0, 0.9, 100), (3.0, 0.9, 0)],
)
def test_jitter_only_shortens(jitter, roll, expected):
    assert delay(Backoff(table=(100,), jitter=jitter), 1, roll) == pytest.approx(expected)


def test_a_callable_goes_on_with_its_last_value():
    assert delay(sampled(float), 1000, 0.0) == 64


@pytest.mark.parametrize("repeat", [0, -3])
def test_a_repeat_before_the_first_waits_like_the_first(repeat):
    assert delay(adaptive(), repeat, 0.0) == 10
    assert delay(exponential(base=2), repeat, 0.0) == 2


@pytest.mark.parametrize("repeat", [1000, 1024, 1025, 10**6, 10**30])
def test_a_million_repeats_do_not_overflow(repeat):
    assert delay(exponential(base=2, cap=300), repeat, 0.0) == 300
    assert delay(exponential(base=5e-324, cap=300), 10**6, 0.0) == 300


@pytest.mark.parametrize(
    ("declared", "waited"), [(math.inf, LONGEST_DELAY), (1e300, LONGEST_DELAY), (math.nan, 0), (-5, 0)]
)
def test_no_declaration_brings_nonsense_into_the_store(declared, waited):
    assert delay(Backoff(table=(declared,), jitter=0.0), 1, 0.0) == waited
    assert delay(Backoff(base=2.0, cap=math.inf), 10**6, 0.5) == LONGEST_DELAY


@given(backoffs, repeats, rolls)
def test_it_never_falls_never_passes_its_cap_and_is_finite(backoff, repeat, roll):
    waited, longer = delay(backoff, repeat, roll), delay(backoff, repeat + 1, roll)
    limit = max(backoff.table) if backoff.table else backoff.cap
    assert 0 <= waited <= longer <= min(limit, LONGEST_DELAY)
    assert math.isfinite(longer)


@given(backoffs, repeats, rolls)
def test_chance_shortens_by_at_most_the_jitter(backoff, repeat, roll):
    longest = delay(backoff, repeat, 0.0)
    assert delay(backoff, repeat, roll) >= longest * (1 - backoff.jitter) - 1e-9


@pytest.mark.parametrize(
    ("asked", "honoured"),
    [(0, 0), (1.5, 1.5), (86400, 86400), (86401, 86400), (math.inf, 86400), (10**400, 86400), (-1, 0), (math.nan, 0)],
)
def test_retry_after_is_honoured_up_to_a_day(asked, honoured):
    assert honour_retry_after(asked) == honoured


@pytest.mark.parametrize(
    ("header", "replied_at", "seconds"),
    [
        ("120", None, 120),
        (" 0 ", None, 0),
        ("1.5", None, 1.5),
        ("9" * 5000, None, 86400),
        ("Wed, 21 Oct 2026 07:30:00 GMT", REPLIED, 120),
        ("Wed, 21 Oct 2026 07:30:00 -0000", REPLIED, 120),
        ("Wed, 21 Oct 2026 09:30:00 +0200", REPLIED, 120),
        ("Wed, 21 Oct 2026 07:00:00 GMT", REPLIED, 0),
        ("Fri, 31 Dec 2999 23:59:59 GMT", REPLIED, 86400),
        ("Wed, 21 Oct 2026 07:30:00 GMT", None, None),
        ("Wed, 21 Oct 2026 07:30:00 GMT", "yesterday", None),
        ("soon", REPLIED, None),
        ("-5", REPLIED, None),
        ("", REPLIED, None),
        ("Wed, 21 Oct 99999999999999999999 07:30:00 GMT", REPLIED, None),
    ],
)
def test_retry_after_header(header, replied_at, seconds):
    assert read_retry_after(header, replied_at) == seconds


@given(st.text() | st.from_regex(r"\w{3}, \d+ (Jan|Oct) \d+ \d+:\d*:\d* ([+-]\d+|GMT|\w*)"))
def test_no_header_raises(header):
    seconds = read_retry_after(header, REPLIED)
    assert seconds is None or 0 <= seconds <= 86400
