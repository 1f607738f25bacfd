"""What a person may do to a job, by its state."""

from __future__ import annotations

import pytest

from standfast.failure import Landed
from standfast.lifecycle import JobRef, Move, State, Transition
from standfast.wings.jobs.rules import cancel
from standfast.wings.policy.permit import permit
from standfast.wings.replays.rules import Refusal, discard, replay
from tests.core.carried import is_duplicate, reason_of


def job(state: State) -> JobRef:
    return JobRef(7, 3, "job-7", "mail", state, "thread:mail:t")


@pytest.mark.parametrize("state", [State.DEAD, State.HELD])
def test_a_letter_is_replayed_under_its_token_and_thread(state):
    assert replay(job(state)) == Transition(7, 3, "job-7", "mail", Move.REPLAY, state, gate="thread:mail:t")


@pytest.mark.parametrize(("landed", "twice"), [(Landed.MAYBE, True), (Landed.NO, False), (None, False)])
def test_a_replay_says_who_asked_and_whether_it_may_double_the_effect(landed, twice):
    decided = replay(job(State.DEAD), attempt=3, landed=landed, by="ann", reason="ticket \ud800")
    assert isinstance(decided, Transition)
    assert (decided.attempt, decided.actor, reason_of(decided)) == (3, "ann", "ticket \ufffd")
    assert is_duplicate(decided) is twice


@pytest.mark.parametrize("state", sorted(set(State) - {State.DEAD, State.HELD}))
def test_nothing_else_is_replayed(state):
    assert replay(job(state)) == Refusal(f"only a dead or held job can be replayed; this one is {state}")


@pytest.mark.parametrize("state", [State.QUEUED, State.WAITING, State.DEAD, State.HELD])
def test_what_does_not_run_is_cancelled_at_once(state):
    assert cancel(job(state)) == Transition(7, 3, "job-7", "mail", Move.CANCEL, state, gate="thread:mail:t")


@pytest.mark.parametrize("state", [State.COMPLETED, State.CANCELLED])
def test_what_is_final_stays_as_it_is(state):
    assert cancel(job(state)) == Refusal(f"it is already {state}")


def test_what_runs_is_only_asked_to_stop():
    refusal = cancel(job(State.RUNNING))
    assert isinstance(refusal, Refusal)
    assert "unless this attempt succeeds" in refusal.why


def test_the_built_in_policy_allows_every_replay():
    assert (permit().decision, permit().rule) == ("allow", "built-in")


@pytest.mark.parametrize("state", [State.DEAD, State.HELD])
def test_a_letter_is_discarded_with_who_and_why(state):
    decided = discard(job(state), by="ann\x1b", reason="r\ud800", attempt=2)
    assert isinstance(decided, Transition)
    assert (decided.move, decided.target, decided.gate) == (Move.DISCARD, State.CANCELLED, "thread:mail:t")
    assert (reason_of(decided), decided.attempt) == ("r\ufffd", 2)


@pytest.mark.parametrize("state", sorted(set(State) - {State.DEAD, State.HELD}))
def test_nothing_else_is_discarded(state):
    assert discard(job(state), by="ann", reason="r") == Refusal(
        f"only a dead or held job can be discarded; this one is {state}"
    )
