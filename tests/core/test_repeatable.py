"""What may run again by itself when nobody knows whether it landed."""

from __future__ import annotations

import json

import pytest

from standfast.failure import Class, Failure, Landed
from standfast.job import Claim, Details
from standfast.lifecycle import Move
from standfast.outcome import Drained, Failed, Lapsed, Outcome, TimedOut
from standfast.rules import DEFAULTS, ReplayMode
from standfast.worker.settling import settle
from tests.core.carried import is_duplicate

MAYBE = Failed(Failure(cls=Class.TRANSIENT, landed=Landed.MAYBE, reason_code="timeout"))
UNKNOWN: list[Outcome] = [MAYBE, Lapsed(), TimedOut(), Drained()]


def claim(method: str = "POST", key: str | None = None, handler: str = "http", mode: ReplayMode = "replay") -> Claim:
    payload = json.dumps({"method": method, "url": "https://a.host"})
    return Claim(1, 1, "id", "q", handler, "w", payload, 1, 5, 0, 90, 900, mode, 0, 0, None, key, Details())


@pytest.mark.parametrize("outcome", UNKNOWN)
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_an_unkeyed_request_that_may_have_landed_waits_for_a_person(method, outcome):
    end = settle(claim(method), outcome, DEFAULTS, 0.0)
    assert end.move is Move.DIE
    assert end.failure is not None
    assert (end.failure.reason_code, end.failure.landed) == ("unknown_commit_state", "maybe")


@pytest.mark.parametrize("outcome", UNKNOWN)
@pytest.mark.parametrize(
    "one",
    [
        claim("POST", key="k"),
        claim("PATCH", key="k"),
        claim("POST", handler="mail"),
        *map(claim, ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE")),
    ],
)
def test_everything_else_is_repeated(one, outcome):
    end = settle(one, outcome, DEFAULTS, 0.0)
    assert end.move is (Move.GIVE_BACK if isinstance(outcome, Drained) else Move.RETRY)
    assert (is_duplicate(end), end.effect) == (True, "maybe")


def test_an_unkeyed_request_that_did_not_land_is_repeated():
    not_sent = Failed(Failure(cls=Class.TRANSIENT, landed=Landed.NO, reason_code="timeout"), 7.0)
    end = settle(claim("POST"), not_sent, DEFAULTS, 0.0)
    assert (end.move, end.delay, is_duplicate(end)) == (Move.RETRY, 7.0, False)


def test_what_a_repeat_cannot_help_keeps_its_reason():
    redirected = Failed(Failure(cls=Class.PERMANENT, landed=Landed.MAYBE, reason_code="redirected"))
    end = settle(claim("POST"), redirected, DEFAULTS, 0.0)
    assert end.failure is not None
    assert (end.move, end.failure.reason_code) == (Move.DIE, "redirected")


@pytest.mark.parametrize("payload", ["null", "[]", "{}", '{"method": 5}', '{"method": "post"}'])
def test_what_is_no_request_is_not_repeatable(payload):
    one = claim()
    broken = Claim(*(payload if name == "payload" else getattr(one, name) for name in Claim.__struct_fields__))
    assert not broken.repeatable
