"""How the evidence about a failure is found: what is asked, in which order, and what is made of it."""

from __future__ import annotations

import email.message
import json
import socket
import urllib.error
from enum import Enum
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import HandlerFailure, Permanent, Transient, Uncertain
from standfast.failure.classify import LONGEST_MESSAGE, of_exception, of_http, of_result
from standfast.failure.error_reply import MOST_LOOKED_AT
from standfast.failure.evidence import CARRIERS
from tests.core.raised import UNCLASSIFIED, Kind, foreign, hostile, raised_for, told, while_handling, wrapped

# What a handler says on purpose


def test_what_the_handler_adds_wins():
    failed = of_exception(Permanent("no", reason_code="quota_spent", error_kind="quota", retry_after=30))
    assert told(failed) == "permanent no quota_spent"
    assert (failed.failure.error_kind, failed.retry_after) == ("quota", 30.0)


@pytest.mark.parametrize(
    ("raised", "advice"),
    [
        (Permanent, "The handler gave up on purpose; read its message before replaying."),
        (Transient, "The handler says that repeating can help; fix what its message names, then replay."),
    ],
)
def test_a_code_of_the_handlers_own_is_advised_by_its_class(raised, advice):
    assert of_exception(raised("bad account", reason_code="no_account")).failure.advice == advice


def test_a_kind_names_the_reason_but_the_class_raised_decides():
    assert told(of_exception(Permanent(error_kind="consent_required"))) == "permanent no user_action_required"
    assert told(of_exception(Transient(error_kind="timeout"))) == "transient no timeout"
    assert told(of_exception(Transient(error_kind="gremlins"))) == "transient no dependency_unavailable"


def test_uncertain_leaves_it_to_the_kind_whether_repeating_helps():
    assert told(of_exception(Uncertain(error_kind="consent_required"))) == "permanent maybe user_action_required"
    assert told(of_exception(Uncertain(reason_code="denied"))) == "permanent maybe denied"
    assert told(of_exception(Uncertain(reason_code="lost_track"))) == "transient maybe lost_track"
    assert told(of_exception(Uncertain(error_kind="timeout", reason_code="mine"))) == "transient maybe mine"
    assert told(of_exception(Transient(reason_code="denied"))) == "transient no denied"


def test_a_subclass_speaks_as_its_base():
    class QuotaSpent(Permanent):
        pass

    failed = of_exception(QuotaSpent("spent"))
    assert told(failed) == "permanent no handler_refused"
    assert failed.failure.error_kind == "QuotaSpent"


def test_the_bare_base_says_nothing():
    assert told(of_exception(HandlerFailure("hm"))) == UNCLASSIFIED
    assert told(of_exception(HandlerFailure(error_kind="refused"))) == "permanent no denied"


# Kinds


def test_a_kind_wins_over_the_type():
    class Refused(TimeoutError):
        error_kind = "refused"

    assert told(of_exception(Refused())) == "permanent no denied"


@pytest.mark.parametrize("kind", [None, 7, "", "  ", b"refused"])
def test_what_is_no_kind_is_ignored(kind):
    assert told(of_exception(Kind(kind))) == UNCLASSIFIED
    assert of_exception(Kind(kind)).failure.error_kind == "Kind"
    assert of_result({"error_kind": kind}) is None


def test_a_kind_may_be_an_enum_of_strings():
    class Mixed(str, Enum):  # noqa: UP042  (older code bases write it so)
        REFUSED = "refused"

    assert of_exception(Kind(Mixed.REFUSED)).failure.error_kind == "refused"


# HTTP statuses that exceptions carry


@pytest.mark.parametrize("status", [302, 401, 404, 429, 500, 503])
@pytest.mark.parametrize(
    "carry",
    [
        raised_for,
        lambda status: Kind(None, status_code=status),
        lambda status: foreign("requests.HTTPError", OSError, response=SimpleNamespace(status_code=status)),
        lambda status: foreign("aiohttp.ClientResponseError", status=status),
        lambda status: urllib.error.HTTPError("http://x", status, "bad", email.message.Message(), None),
    ],
    ids=["httpx2", "own", "requests", "aiohttp", "urllib"],
)
def test_a_status_is_found_on_the_exception(carry, status):
    failed = of_exception(carry(status))
    assert told(failed) == told(of_http(status))
    assert failed.failure.error_kind == type(carry(status)).__name__


@pytest.mark.parametrize("status", [True, "503", None, 200])
def test_what_is_no_failing_status_is_ignored(status):
    assert told(of_exception(Kind(None, status_code=status))) == UNCLASSIFIED


def test_a_status_says_more_than_the_type():
    assert told(of_exception(foreign("aiohttp.ContentTypeError", status_code=503))) == told(of_http(503))


def test_a_status_or_code_elsewhere_is_no_http_status():
    assert told(of_exception(Kind(None, status=503, code=404))) == UNCLASSIFIED


def test_an_answered_request_whose_reply_was_unreadable():
    error = foreign("aiohttp.ContentTypeError", type(foreign("aiohttp.ClientResponseError")), status=200)
    assert told(of_exception(error)) == "permanent maybe parse_error"


# Retry-After


@pytest.mark.parametrize(
    ("asked", "honoured"),
    [(0, 0), (30, 30), (2.5, 2.5), (-5, 0), (10**9, 86400), (10**400, 86400), (float("inf"), 86400)],
)
def test_a_wait_is_honoured_up_to_a_day(asked, honoured):
    failures = [
        of_exception(Transient(retry_after=asked)),
        of_exception(Kind("rate_limited", retry_after=asked)),
        of_exception(Kind(None, retry_after=asked)),
        of_http(429, asked),
        of_result({"success": False, "retry_after": asked}),
    ]
    assert [failed and failed.retry_after for failed in failures] == [honoured] * 5


@pytest.mark.parametrize("asked", [None, True, "soon", float("nan"), [], {}])
def test_what_is_no_wait_is_ignored(asked):
    failures = [of_exception(Kind("rate_limited", retry_after=asked)), of_result({"error": 1, "retry_after": asked})]
    assert [failed and failed.retry_after for failed in failures] == [None, None]


def test_the_header_of_the_reply_is_honoured():
    assert of_exception(raised_for(503, {"retry-after": "120"})).retry_after == 120
    assert of_exception(raised_for(503)).retry_after is None
    assert of_exception(foreign("aiohttp.ClientResponseError", status=429, headers=None)).retry_after is None
    own = foreign("aiohttp.ClientResponseError", status=429, headers={"Retry-After": "7"})
    assert of_exception(own).retry_after == 7


def test_a_date_in_the_header_is_measured_from_the_reply():
    headers = {"Retry-After": "Wed, 21 Oct 2026 07:30:00 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}
    assert of_exception(raised_for(503, headers)).retry_after == 120


# Wrapped causes


def test_the_cause_decides_when_the_wrapper_says_nothing():
    failed = of_exception(wrapped(RuntimeError("sync failed"), wrapped(KeyError("x"), ConnectionRefusedError())))
    assert told(failed) == "transient no dependency_unavailable"
    assert (failed.failure.error_kind, failed.failure.message) == ("ConnectionRefusedError", "sync failed")


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (Permanent("x"), "permanent no handler_refused"),
        (Kind("consent_required"), "permanent no user_action_required"),
        (raised_for(429, {"Retry-After": "9"}), "transient no rate_limited"),
    ],
    ids=["handler", "kind", "status"],
)
def test_a_cause_may_speak_in_every_way(cause, expected):
    assert told(of_exception(wrapped(RuntimeError(), cause))) == expected


def test_the_nearest_exception_that_says_anything_decides():
    assert told(of_exception(wrapped(TimeoutError(), Permanent("x")))) == "transient maybe timeout"


def test_the_wait_asked_by_a_cause_is_honoured():
    assert of_exception(wrapped(RuntimeError(), raised_for(429, {"Retry-After": "9"}))).retry_after == 9


def test_what_was_being_handled_is_a_hint_but_never_says_that_nothing_landed():
    error = while_handling(RuntimeError("clean-up failed"), ConnectionRefusedError())
    assert told(of_exception(error)) == "transient maybe dependency_unavailable"


def test_a_suppressed_context_is_not_looked_at():
    error = while_handling(RuntimeError(), ConnectionRefusedError())
    error.__suppress_context__ = True
    assert told(of_exception(error)) == UNCLASSIFIED


def test_a_stated_cause_goes_before_the_context():
    error = while_handling(wrapped(RuntimeError(), TimeoutError()), ConnectionRefusedError())
    assert told(of_exception(error)) == "transient maybe timeout"


def chain(length: int) -> BaseException:
    error: BaseException = ConnectionRefusedError()
    for _ in range(length - 1):
        error = wrapped(RuntimeError(), error)
    return error


def test_causes_are_followed_ten_deep():
    assert told(of_exception(chain(10))) == "transient no dependency_unavailable"
    assert told(of_exception(chain(11))) == UNCLASSIFIED


def test_a_circle_of_causes_ends():
    first, second = RuntimeError("a"), RuntimeError("b")
    wrapped(first, wrapped(second, first))
    assert told(of_exception(first)) == UNCLASSIFIED


# Carried causes


def carrying(name: str, inner: object) -> BaseException:
    error = foreign(name)
    error.args = (inner,)
    vars(error)["reason"] = inner
    return error


@pytest.mark.parametrize("name", CARRIERS)
def test_what_an_exception_carries_is_judged_in_its_place(name):
    failed = of_exception(carrying(name, ConnectionRefusedError()))
    assert told(failed) == "transient no dependency_unavailable"
    assert failed.failure.error_kind == name.split(".")[1]


def test_what_it_carries_may_carry_again():
    error = carrying("requests.ConnectionError", carrying("urllib3.MaxRetryError", socket.gaierror()))
    assert told(of_exception(error)) == "transient no dependency_unavailable"
    assert told(of_exception(carrying("requests.ConnectionError", ValueError()))) == told(
        of_exception(foreign("requests.ConnectionError"))
    )


def test_one_that_carries_itself_ends():
    error = carrying("urllib.URLError", "unknown url type")
    assert told(of_exception(error)) == UNCLASSIFIED
    vars(error)["reason"] = error
    assert told(of_exception(error)) == UNCLASSIFIED


def test_a_status_that_the_client_made_up_is_no_answer():
    """What aiohttp says: 400 of a reply that it cannot read, and 0 of redirects without end."""
    broken = wrapped(foreign("aiohttp.ClientResponseError", status=400), foreign("aiohttp.HttpProcessingError"))
    assert told(of_exception(broken)) == "transient maybe dependency_unavailable"
    assert told(of_exception(foreign("aiohttp.TooManyRedirects", status_code=0))) == "permanent maybe redirected"
    assert told(of_exception(wrapped(raised_for(404), ValueError()))) == "permanent no request_rejected"


# Groups


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([Permanent(), Permanent()], "permanent no handler_refused"),
        ([Permanent(), Transient()], "transient no dependency_unavailable"),
        ([Permanent(), ValueError()], UNCLASSIFIED),
        ([Transient(), ValueError()], UNCLASSIFIED),
        ([Transient(), TimeoutError()], "transient maybe timeout"),
        ([Permanent(), json.JSONDecodeError("", "", 0)], "permanent maybe parse_error"),
        ([json.JSONDecodeError("", "", 0), Transient()], "transient maybe dependency_unavailable"),
        ([ExceptionGroup("inner", [Permanent()]), Permanent()], "permanent no handler_refused"),
        ([wrapped(RuntimeError(), ConnectionRefusedError())], "transient no dependency_unavailable"),
    ],
)
def test_the_worst_member_decides_for_a_group(members, expected):
    assert told(of_exception(ExceptionGroup("group", members))) == expected
    assert told(of_exception(ExceptionGroup("group", members[::-1]))) == expected
    assert told(of_exception(wrapped(RuntimeError(), ExceptionGroup("group", members)))) == expected


def test_the_members_of_a_group_go_before_its_cause():
    group = wrapped(ExceptionGroup("group", [TimeoutError()]), Permanent())
    assert told(of_exception(group)) == "transient maybe timeout"


def test_a_group_tells_its_members_and_waits_for_the_slowest():
    failed = of_exception(ExceptionGroup("two", [Transient("a", retry_after=5), Transient("b", retry_after=60)]))
    assert failed.failure.message == "two (2 sub-exceptions): Transient: a; Transient: b"
    assert failed.retry_after == 60


def test_a_group_inside_its_own_member_ends():
    member = RuntimeError("x")
    group = ExceptionGroup("group", [member] * 50)
    wrapped(member, group)
    assert told(of_exception(group)) == UNCLASSIFIED


def test_a_group_of_many_is_told_within_the_limit():
    failed = of_exception(ExceptionGroup("many", [ValueError("x" * 5000)] * 100))
    assert len(failed.failure.message) == LONGEST_MESSAGE


def test_a_group_of_very_many_is_looked_at_in_part():
    """And what was not looked at may be anything."""
    some, many = [Permanent()] * MOST_LOOKED_AT, [Permanent()] * 100_000
    assert told(of_exception(ExceptionGroup("some", some[1:]))) == "permanent no handler_refused"
    assert told(of_exception(ExceptionGroup("many", many))) == UNCLASSIFIED


def test_groups_in_groups_are_looked_at_in_part():
    group: ExceptionGroup[Exception] = ExceptionGroup("inner", [Permanent()] * 30)
    for _ in range(8):
        group = ExceptionGroup("outer", [group] * 30)
    assert told(of_exception(group)) == UNCLASSIFIED


# Text


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("nul \x00 byte", "nul \ufffd byte"),
        ("\x1b[31mred\x1b[0m", "\ufffdred\ufffd"),
        ("\x1b]0;title\x07", "\ufffd]0;title\ufffd"),
        ("half \ud800 pair", "half \ufffd pair"),
        ("c1 \x9b delete \x7f", "c1 \ufffd delete \ufffd"),
        ("right\u202eleft\u200e", "right\ufffdleft\ufffd"),
        ("two\r\n\tlines", "two lines"),
        ("naïve 日本 🙂", "naïve 日本 🙂"),
        ("", ""),
    ],
)
def test_text_is_made_printable(said, kept):
    assert of_exception(ValueError(said)).failure.message == kept
    returned = of_result({"success": False, "error": said})
    assert returned is not None
    assert returned.failure.message == kept


def test_text_is_cut():
    assert of_exception(ValueError("x" * 5000)).failure.message == "x" * 2000
    assert of_exception(Kind("k" * 5000)).failure.error_kind == "k" * 200


@given(st.text(st.characters(exclude_categories=())))
def test_whatever_is_said_can_be_stored(said):
    failed = of_exception(Permanent(said, reason_code=said, error_kind=said))
    for text in (failed.failure.message, failed.failure.reason_code, failed.failure.error_kind):
        assert text is not None
        assert "\x00" not in text
        assert text.encode().decode() == text


@pytest.mark.parametrize(("how", "error"), hostile().items())
def test_an_exception_that_resists_is_told_all_the_same(how, error):
    failed = of_exception(error)
    assert failed.failure.landed == "maybe"
    grouped = of_exception(ExceptionGroup("group", [error, Permanent()])) if isinstance(error, Exception) else failed
    assert grouped.failure.landed == "maybe", how


def test_a_result_that_resists_tells_of_no_failure():
    class Resisting(dict[str, object]):
        def get(self, *_given: object) -> None:
            raise RuntimeError("no value")

    assert of_result(Resisting(error="no")) is None


def test_an_interrupt_by_a_person_is_not_swallowed():
    class Interrupted(Exception):
        def __str__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        of_exception(Interrupted())


def test_an_exception_whose_text_and_attributes_raise_is_told_all_the_same():
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

        @property
        def error_kind(self) -> str:
            raise RuntimeError("no kind")

        response = status_code = retry_after = headers = error_kind

    failed = of_exception(Broken())
    assert told(failed) == UNCLASSIFIED
    assert failed.failure.message == "Broken (its text could not be read)"


@pytest.mark.parametrize("name", ["psycopg.OperationalError", "asyncpg.PostgresError", "apsw.Error", "urllib.URLError"])
def test_an_exception_whose_code_cannot_be_read_is_told_all_the_same(name):
    def broken(_error: object) -> None:
        raise RuntimeError("no code")

    codes = dict.fromkeys(("sqlstate", "pgconn", "sqlite_errorcode", "result", "reason"), property(broken))
    kind = type(foreign(name))
    error = type(kind.__name__, (kind,), codes)("it broke")
    assert of_exception(error).failure.landed == "maybe"


# Results


@pytest.mark.parametrize(
    "result",
    [
        None,
        "error",
        False,
        0,
        [],
        ["error"],
        {},
        {"success": True},
        {"success": None},
        {"success": 0},
        {"success": True, "error": "a warning, really"},
        {"error": None},
        {"error": ""},
        {"error": {}},
        {"error_kind": None},
        {"verified": True},
        {"verified": "verified"},
        {"verified": {}},
        {"verified": {"ticket": True, "mail": "verified"}},
    ],
)
def test_success(result):
    assert of_result(result) is None


@pytest.mark.parametrize(
    ("result", "expected", "message"),
    [
        ({"success": False}, UNCLASSIFIED, ""),
        ({"success": False, "message": "no"}, UNCLASSIFIED, "no"),
        ({"error": "boom"}, UNCLASSIFIED, "boom"),
        ({"error": {"code": 7}}, UNCLASSIFIED, "{'code': 7}"),
        ({"error": "boom", "success": None}, UNCLASSIFIED, "boom"),
        ({"success": True, "error_kind": "refused"}, "permanent no denied", ""),
        ({"success": False, "error_kind": "refused", "error": "no"}, "permanent no denied", "no"),
        ({"success": True, "verified": {"a": True, "b": "no"}}, "transient maybe unverified", "not verified: b (no)"),
        ({"verified": {"a": "indeterminate"}}, "transient maybe unverified", "not verified: a (indeterminate)"),
        ({"verified": {"a": 1}}, "transient maybe unverified", "not verified: a (1)"),
        ({"verified": "partial"}, "transient maybe unverified", "not verified: result (partial)"),
        ({"verified": False}, "transient maybe unverified", "not verified: result (False)"),
        ({"verified": None}, "transient maybe unverified", "not verified: result (None)"),
        ({"verified": ["verified"]}, "transient maybe unverified", "not verified: result (['verified'])"),
        ({"success": False, "verified": False, "error": "lost"}, "transient maybe unverified", "lost"),
        (
            {"error_kind": "refused", "verified": {"a": True, "b": "no"}},
            "permanent maybe denied",
            "not verified: b (no)",
        ),
    ],
)
def test_soft_failure(result, expected, message):
    failed = of_result(result)
    assert told(failed) == expected
    assert failed is not None
    assert failed.failure.message == message


def test_a_value_that_cannot_say_whether_it_is_true_counts_as_an_error():
    class Ambiguous:
        def __bool__(self) -> bool:
            raise ValueError("ambiguous")

        def __str__(self) -> str:
            return "a table of errors"

    failed = of_result({"error": Ambiguous()})
    assert told(failed) == UNCLASSIFIED
    assert failed is not None
    assert failed.failure.message == "a table of errors"
