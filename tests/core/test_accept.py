"""Accepting: everything a caller gives is checked before anything is written, and laid out as one job."""

from __future__ import annotations

import getpass
import os
import pwd
import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast import Standfast
from standfast.application.bulk_arguments import check_shared_key
from standfast.errors import ConfigurationError, IdempotencyConflict, PayloadRejected, StandfastError
from standfast.job import MOST_LABELS, Details, Receipt
from standfast.lifecycle import State
from standfast.spine.accept import Acceptor, receipt, user
from standfast.spine.claim_requests import Conflict
from standfast.spine.ids import IDS, Ids
from standfast.spine.payload import fingerprint
from standfast.spine.registry import Declaration, Handler, Registry
from standfast.testing import FrozenClock, memory

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
START = datetime(2026, 1, 1, tzinfo=UTC)
"""What the clock says."""
UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class Letter(msgspec.Struct):
    to: str


@pytest.fixture
def registry():
    known = Registry()
    known.add(Handler(print, Declaration(queue="mail", name="send"), None, input=Letter))  # type: ignore[arg-type]
    return known


@pytest.fixture
def accept(registry):
    acceptor = Acceptor(registry, FrozenClock(), Ids(lambda bits: bits))
    return lambda queue, payload=None, **options: acceptor.jobs(queue, [payload], **options)[0]


def details(job):
    return msgspec.json.decode(job.details, type=Details)


@pytest.mark.parametrize("place", [{"queue": "standfast.notify"}, {"queue": "mail", "handler": "standfast.notify"}])
def test_nobody_brings_what_is_told_in_our_name(accept, place):
    with pytest.raises(ConfigurationError, match="nothing was written"):
        accept(**place)


# --- what is laid out


def test_a_bare_call(accept):
    job = accept("mail", {"b": 1, "a": 2})
    assert (job.queue, job.handler, job.payload) == ("mail", "mail", '{"a":2,"b":1}')
    assert (job.priority, job.delay, job.at, job.expires, job.budget, job.lease) == (None, 0.0, None, None, None, None)
    assert (job.idempotency_key, job.fingerprint) == (None, None)


def test_what_was_said_before_is_read_anew_where_it_means_something_else(accept):
    """Options are remembered by what they are, not by what they equal."""
    job = accept("mail", 1, priority=1, delay=1)
    assert (job.priority, job.delay) == (1, 1.0)
    for alike in ({"priority": 1.0, "delay": 1}, {"priority": True, "delay": 1}):
        with pytest.raises(ConfigurationError, match="priority must be a whole number"):
            accept("mail", 1, **alike)
    keyed = accept("mail", 1, priority=1, delay=1, idempotency_key="a")
    labelled = accept("mail", 1, priority=1, delay=1, labels={"a": "b"})
    assert (keyed.idempotency_key, labelled.idempotency_key) == ("a", None)
    assert labelled.details != keyed.details == job.details


def test_every_option(accept):
    job = accept(
        "mail",
        {"to": "bob"},
        handler="send",
        idempotency_key="k",
        priority=-5,
        delay=1.5,
        expires=2e9,
        attempts=7,
        lease=600,
        session="s1",
        requester="ann",
        risk="high",
        labels={"team": "a", "empty": ""},
    )
    assert (job.handler, job.priority, job.delay, job.expires) == ("send", -5, 1.5, 2e9)
    assert (job.budget, job.lease, job.idempotency_key) == (7, 600.0, "k")
    assert job.fingerprint == fingerprint("send", '{"to":"bob"}')
    labels = {"team": "a", "empty": ""}
    assert details(job) == Details(requester="ann", session="s1", risk="high", labels=labels)


@pytest.mark.parametrize("value", ["90m", 5400, 5400.0, timedelta(minutes=90), "1h 30m"])
def test_a_duration_reads_the_same_however_it_is_written(accept, value):
    assert accept("mail", delay=value).delay == accept("mail", lease=value).lease == 5400.0


@pytest.mark.parametrize("value", [NOON, NOON.timestamp(), NOON.astimezone(timezone(timedelta(hours=-8)))])
def test_a_moment_reads_the_same_however_it_is_written(accept, value):
    assert accept("mail", at=value).at == accept("mail", expires=value).expires == NOON.timestamp()


@pytest.mark.parametrize("what", ["at", "expires"])
def test_a_datetime_without_a_zone_is_refused_with_both_ways_to_write_it(accept, what):
    """Taken as UTC, an hour from now in New York would be four hours ago."""
    with pytest.raises(
        ConfigurationError, match=rf"{what}=2026-01-01T12:00:00 .*datetime\.now\(UTC\).*\.astimezone\(\)"
    ):
        accept("mail", **{what: NOON.replace(tzinfo=None)})


@pytest.mark.parametrize(
    ("expires", "words"),
    [
        (60, r"expires=60 is 1970-01-01T00:01:00\+00:00, which is in the past.* write time\.time\(\) \+ 60$"),
        (
            NOON - timedelta(days=9),
            r"is 2025-12-23T12:00:00\+00:00, which is in the past, so the job would never run; nothing was written$",
        ),
        (START.timestamp(), "is in the past"),
        ("10m", r"a datetime with a zone or seconds since 1970, such as time\.time\(\) \+ 600, not '10m'"),
    ],
)
def test_an_expiry_that_is_past_or_a_length_of_time_is_refused(accept, expires, words):
    with pytest.raises(ConfigurationError, match=words):
        accept("mail", expires=expires)
    assert accept("mail", expires=START.timestamp() + 0.001).expires == START.timestamp() + 0.001
    assert accept("mail", at=60).at == 60


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"requester": "ann", "session": "s1"}, "ann"),
        ({"session": "s1"}, "s1"),
        ({"risk": "low"}, getpass.getuser()),
        ({}, getpass.getuser()),
    ],
)
def test_the_requester_is_the_named_one_else_the_session_else_the_user(accept, given, expected):
    assert details(accept("mail", **given)).requester == expected


def test_the_user_is_the_one_that_the_operating_system_knows(monkeypatch):
    user.cache_clear()
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "bea")
    assert user() == pwd.getpwuid(os.getuid()).pw_name
    user.cache_clear()
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    assert user() == "uid-4000000"
    user.cache_clear()


# --- what is refused


@pytest.mark.parametrize("name", ["", None, 5, "a\nb", "a\0", "\ud800", "\x1b[31m", "\u202e", "x" * 201, ["q"], b"q"])
def test_a_name_that_nobody_can_read_is_refused(accept, name):
    for call in (
        lambda: accept(name),
        lambda: accept("mail", handler=name if name is not None else ""),
        lambda: accept("mail", idempotency_key=name if name is not None else ""),
        lambda: accept("mail", session=name or "\n"),
        lambda: accept("mail", requester=name if name is not None else ""),
        lambda: accept("mail", labels={"a": name if name != "" else 5}),
    ):
        with pytest.raises(ConfigurationError, match="must be printable text of 1 to 200 characters"):
            call()


@pytest.mark.parametrize("name", ["a", "x" * 200, "mail/eu.west-1:β", "$daily", 'a"b', "with spaces", "日本"])
def test_a_name_may_be_anything_that_can_be_read(accept, name):
    job = accept(name, handler=name, idempotency_key=name, session=name, labels={name: name})
    assert (job.queue, job.handler, job.idempotency_key) == (name, name, name)
    assert details(job).session == name


@pytest.mark.parametrize(
    "bad",
    [
        *({"priority": value} for value in (1.0, "5", True, 2**31, -(2**31) - 1)),
        *({"attempts": value} for value in (0, -1, 1.5, "5", True)),
        *({"delay": value} for value in (-1, float("nan"), float("inf"), "soon", "-5s", [1], 1e10, timedelta(-1))),
        *({"lease": value} for value in (0, -5, 0.5, "0s", float("nan"))),
        *({"at": value} for value in (-1, "tomorrow", float("nan"), 1e11, [1])),
        *({"expires": value} for value in (-1, "2026-01-01", float("inf"))),
        *({"risk": value} for value in ("", "huge", "High", 5)),
        *({"labels": value} for value in (["a"], "a", {"a": 1}, {1: "a"}, {"a": None}, {"": "a"}, {"a\0": "b"})),
    ],
    ids=repr,
)
def test_an_option_that_cannot_be_is_refused(accept, bad):
    with pytest.raises(ConfigurationError):
        accept("mail", {}, **bad)


@pytest.mark.parametrize("delay", [60, 0, "1h"])
def test_delay_and_at_together_are_refused(accept, delay):
    """Nobody could tell which of them was meant."""
    with pytest.raises(ConfigurationError, match=r"delay= and at= both .* give one of them"):
        accept("mail", delay=delay, at=NOON)
    assert accept("mail", delay=delay, at=None).at is None
    assert accept("mail", delay=None, at=NOON).at == NOON.timestamp()


def test_labels_are_limited_in_number(accept):
    most = {f"label {number}": "x" for number in range(MOST_LABELS)}
    assert details(accept("mail", labels=most)).labels == most
    with pytest.raises(ConfigurationError, match="labels may have 64 entries, not 65"):
        accept("mail", labels=most | {"one more": "x"})


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("atempts", r"unknown option 'atempts' \(did you mean 'attempts'\?\); known are handler, "),
        ("otherwize", r"unknown option 'otherwize' \(did you mean 'otherwise'\?\)"),
        ("idempotency", "did you mean 'idempotency_key'"),
        ("key", "did you mean 'idempotency_key'"),
        ("retries", "did you mean 'attempts'"),
        ("nonsense", "unknown option 'nonsense'; known are handler, .*labels"),
    ],
)
def test_an_option_nobody_knows_is_refused_with_the_one_that_was_meant(accept, option, words):
    with pytest.raises(ConfigurationError, match=words):
        accept("mail", {}, **{option: 1})


async def test_an_option_that_a_single_job_cannot_have_is_refused():
    async with memory() as sf:
        with pytest.raises(ConfigurationError, match=r"unknown option 'keys'.*; known are"):
            await sf.enqueue("mail", 1, keys=["a"])  # type: ignore[call-arg]


def test_attempts_are_from_one(accept):
    with pytest.raises(ConfigurationError, match="attempts must be a whole number from 1 to 2147483647, not 0"):
        accept("mail", attempts=0)


@pytest.mark.parametrize("payloads", ["abc", b"abc", {"to": "ann"}, None, 5])
async def test_one_payload_is_no_list_of_payloads(payloads):
    async with memory() as sf:
        with pytest.raises(ConfigurationError, match=r"enqueue_many takes a list of payloads, .*nothing was written"):
            await sf.enqueue_many("mail", payloads)
        await sf.enqueue_many("mail", range(2))
        assert [job.payload for job in await sf.jobs()] == [1, 0]


def test_a_payload_is_checked_whatever_the_queue(accept):
    with pytest.raises(PayloadRejected):
        accept("mail", {1, 2})


@pytest.mark.parametrize("payload", [{"to": 5}, {}, None, []])
def test_a_payload_that_does_not_fit_its_handler_is_refused_where_the_handler_is_known(accept, payload):
    with pytest.raises(PayloadRejected, match="the payload does not fit send"):
        accept("mail", payload, handler="send")
    assert accept("mail", payload, handler="elsewhere").handler == "elsewhere"
    assert accept("mail", payload).handler == "mail"


@pytest.mark.parametrize(
    "bad",
    [
        {"payload": {1}},
        {"payload": {"to": 5}, "handler": "send"},
        {"delay": -1},
        {"delay": 60, "at": NOON},
        {"labels": {str(number): "x" for number in range(MOST_LABELS + 1)}},
    ],
    ids=["payload", "input", "delay", "delay and at", "labels"],
)
async def test_what_is_refused_was_not_written(bad):
    async with memory() as sf:
        sf.handler("mail", name="send", input=Letter)(print)
        with pytest.raises(StandfastError):
            await sf.enqueue("mail", **bad)
        with pytest.raises(StandfastError):
            sf.enqueue_sync("mail", **bad)
        assert await sf.jobs() == []


# --- receipts and keys


async def test_the_state_of_a_receipt_has_one_type_whatever_the_outcome():
    async with memory() as sf:
        receipts = [await sf.enqueue("mail", idempotency_key="k") for _ in range(2)]
        receipts += [await sf.enqueue("mail", thread_key="t", coalesce="latest") for _ in range(2)]
        assert [receipt.outcome for receipt in receipts] == ["accepted", "duplicate", "accepted", "coalesced"]
        assert [type(receipt.state) for receipt in receipts] == [State] * 4


def test_a_conflict_names_the_key_and_the_job_that_has_it(accept):
    job = accept("mail", {}, idempotency_key="k")
    assert receipt(Receipt("j1", "duplicate", "dead"), job) == ("j1", "duplicate", "dead")
    with pytest.raises(
        IdempotencyConflict, match=r"key 'k' of queue 'mail' .* job j1 .* nothing was written"
    ) as caught:
        receipt(Conflict("j1"), job)
    assert caught.value.job_id == "j1"


def test_one_key_is_for_one_payload(accept):
    same = [accept("mail", {"a": 1}, idempotency_key="k") for _ in range(3)]
    check_shared_key(same)
    check_shared_key([accept("mail", {"a": n}) for n in range(3)])
    check_shared_key([])
    with pytest.raises(ConfigurationError, match="nothing was written"):
        check_shared_key([*same, accept("mail", {"a": 2}, idempotency_key="k")])


# --- ids


@settings(deadline=None)
@given(st.floats(0, 2**47 / 1000), st.floats(0, 1, exclude_max=True))
def test_an_id_is_a_uuid_of_version_seven(wall, luck):
    text = Ids(lambda bits: int(luck * 2**bits)).mint(wall)
    assert UUID7.fullmatch(text)
    assert int(text.replace("-", "")[:12], 16) == int(wall * 1000)


@settings(deadline=None)
@given(st.integers(0, 10**12), st.integers(1, 10**12))
def test_later_ids_sort_last(millisecond, later):
    earlier = Ids(lambda bits: 2**bits - 1).mint(millisecond / 1000)
    assert earlier <= Ids(lambda _bits: 0).mint((millisecond + later + 1) / 1000)


@settings(deadline=None)
@given(st.integers(0, 10**12), st.floats(0, 1, exclude_max=True))
def test_ids_of_one_millisecond_sort_as_they_were_minted(millisecond, luck):
    ids = Ids(lambda bits: int(luck * 2**bits))
    minted = [ids.mint(millisecond / 1000) for _ in range(100)]
    assert minted == sorted(set(minted))


def test_a_millisecond_begins_by_chance():
    assert len({Ids(random.getrandbits).mint(0.0)[14:] for _ in range(100)}) == 100


def test_ids_do_not_meet():
    assert len({IDS.mint(moment / 1000) for moment in (5, 6, 5) for _ in range(10_000)}) == 30_000


def test_threads_mint_side_by_side():
    with ThreadPoolExecutor(4) as pool:
        parts = pool.map(lambda _: [IDS.mint(time.time()) for _ in range(5_000)], range(4))
    assert len({minted for part in parts for minted in part}) == 20_000


def test_a_forked_child_does_not_go_on_where_its_parent_does():
    IDS.mint(7.0)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, IDS.mint(7.0).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100).decode() != IDS.mint(7.0)
    os.close(read)
    os.close(write)


async def test_what_a_model_says_of_a_misfit_is_one_line():
    class Order(pydantic.BaseModel):
        amount: int
        note: str

    async with Standfast(":memory:") as sf:
        sf.handler("orders", input=Order)(lambda _job: None)
        with pytest.raises(PayloadRejected) as refused:
            await sf.enqueue("orders", {"amount": "many"})
    assert "\n" not in str(refused.value)
    assert "amount; Input should be a valid integer" in str(refused.value)
    assert "note; Field required" in str(refused.value)
    assert "http" not in str(refused.value)
