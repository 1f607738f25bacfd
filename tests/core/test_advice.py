"""The hint of a reply and the advice of its failure never disagree, whatever stopped a job and wherever it is."""

from __future__ import annotations

import re
from typing import Any

import pytest

from standfast.failure import CATALOGUE, Action, Class, Failure, Landed, reason
from standfast.lifecycle import State
from standfast.views import Attempt, Triage
from standfast.wings.calls.replies import reply
from standfast.wings.records.advice import advised
from tests.core.test_replies import NOW, job

CODES = [*CATALOGUE, "a_code_of_the_handlers_own"]
SAYS_REPLAY = re.compile(r"\breplay", re.IGNORECASE)
LOOKS_FIRST = re.compile(r"\b(look|see|check)", re.IGNORECASE)
NOT_NOW = re.compile(
    r"Do not call again|Do not ask for a retry|goes on by itself|continues automatically|cannot be retried"
)
TRIAGES = {
    None: None,
    "scheduled": Triage(action=Action.AUTO_REPLAY, rule="r", replay_status="scheduled", replay_at=0.0),
    "approval_pending": Triage(action=Action.REQUIRE_APPROVAL, rule="r", replay_status="approval_pending"),
}
PLACES = [
    (State.QUEUED, None),
    (State.RUNNING, None),
    (State.DEAD, None),
    (State.DEAD, "scheduled"),
    (State.HELD, None),
    (State.HELD, "approval_pending"),
]


def told(code: str, landed: Landed, state: State, status: str | None, *, earlier: Landed | None = None) -> Any:
    """Give the hint and the advice of a job that stopped so."""
    cls = reason(code, Class.TRANSIENT).cls
    failure = Failure(cls=cls, landed=landed, reason_code=code, message="no", advice=reason(code, cls).advice)
    lines = [earlier, landed] if earlier is not None else [landed]
    history = [Attempt(attempt=1, at=NOW, cls=cls, landed=each, reason_code=code) for each in lines]
    stands = advised(failure, state, TRIAGES[status], history)
    found = job(state, view=state, failure=stands, history=history, triage=TRIAGES[status], attempts=len(lines))
    return reply(found)["hint"], stands.advice


@pytest.mark.parametrize("landed", list(Landed))
@pytest.mark.parametrize(("state", "status"), PLACES)
@pytest.mark.parametrize("code", CODES)
def test_hint_and_advice_agree(code: str, state: State, status: str | None, landed: Landed) -> None:
    hint, advice = told(code, landed, state, status)
    assert advice
    if state in {State.QUEUED, State.RUNNING} or status is not None:
        assert not SAYS_REPLAY.search(advice.replace("policy replays", "")), (hint, advice)
    if "may have been done" in hint:
        assert LOOKS_FIRST.search(advice), (hint, advice)
    if "had no effect" in hint:
        assert "may exist" not in advice, (hint, advice)
        assert "effect landed" not in advice, (hint, advice)
    if NOT_NOW.search(hint) and state != State.HELD:
        assert not re.search(r"then replay|replay it", advice), (hint, advice)


def test_what_an_earlier_attempt_may_have_done_counts_in_both() -> None:
    hint, advice = told("max_attempts", Landed.NO, State.DEAD, None, earlier=Landed.MAYBE)
    assert "may have been done" in hint
    assert advice.startswith("Its effect may exist: check before you replay.")


def test_a_letter_that_the_policy_replays_is_not_called_failed_for_good() -> None:
    hint, advice = told("dependency_unavailable", Landed.NO, State.DEAD, "scheduled")
    assert "permanently" not in hint
    assert "run again by itself" in hint
    assert "replays it automatically" in advice


def test_a_timeout_that_did_nothing_is_not_called_uncertain() -> None:
    hint, advice = told("timeout", Landed.NO, State.DEAD, None)
    assert "had no effect" in hint
    assert "nothing was done" in advice
