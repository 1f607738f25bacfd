"""The states, and every way between them, written out a second time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from standfast.failure import Class, Failure, Landed
from standfast.lifecycle import (
    BIRTHS,
    FINAL,
    LETTERS,
    MOVES,
    UNFINISHED,
    Move,
    PossibleDuplicate,
    State,
    Transition,
    view,
)
from standfast.wings.approvals.words import Bound, Filing
from standfast.wings.consent.words import Use
from standfast.wings.jobs.rules import unwanted
from tests.core.carried import is_duplicate

WAYS = {
    "claim": ("queued", "running"),
    "complete": ("running", "completed"),
    "retry": ("running", "queued"),
    "snooze": ("running", "queued"),
    "give_back": ("running", "queued"),
    "die": ("running queued held", "dead"),
    "hold": ("running queued dead", "held"),
    "replay": ("dead held", "queued"),
    "resolve": ("dead held queued", "completed"),
    "release": ("waiting held", "queued"),
    "discard": ("dead held", "cancelled"),
    "cancel": ("queued waiting running held dead", "cancelled"),
}


def transition(move: Move, source: State) -> Transition:
    return Transition(n=1, token=1, id="j", queue="mail", move=move, source=source)


def reachable(start: frozenset[State]) -> set[State]:
    found = set(start)
    while more := {target for sources, target in MOVES.values() if sources & found} - found:
        found |= more
    return found


def test_every_move_has_a_way():
    assert set(WAYS) == set(MOVES) == set(Move)


@pytest.mark.parametrize("source", list(State))
@pytest.mark.parametrize("move", list(Move))
def test_a_move_leaves_only_the_states_it_may(move, source):
    sources, target = WAYS[move]
    if source in sources.split():
        assert transition(move, source).target == target
    else:
        with pytest.raises(ValueError, match=f"{move} cannot leave {source}"):
            transition(move, source)


def test_only_completed_and_cancelled_are_final():
    left = frozenset().union(*(sources for sources, _ in MOVES.values()))
    assert frozenset(State) - left == FINAL == {State.COMPLETED, State.CANCELLED}
    assert left == UNFINISHED


def test_a_letter_is_dead_or_held():
    assert {State.DEAD, State.HELD} == LETTERS


def test_every_state_is_reached_from_a_birth():
    assert reachable(BIRTHS) == set(State)
    assert reachable(frozenset({State.QUEUED})) == set(State) - {State.WAITING}


@pytest.mark.parametrize("birth", sorted(BIRTHS))
def test_every_birth_can_end_well_and_can_be_stopped(birth):
    assert reachable(frozenset({birth})) >= FINAL


def test_a_job_is_born_unfinished():
    assert BIRTHS == UNFINISHED


BROKEN = Failure(cls=Class.UNKNOWN, landed=Landed.MAYBE, reason_code="unclassified_error")


@pytest.mark.parametrize("move", [Move.RETRY, Move.SNOOZE, Move.GIVE_BACK, Move.DIE, Move.HOLD])
def test_what_nobody_wants_any_more_ends_cancelled_and_keeps_what_is_known_of_its_effect(move):
    decided = replace(transition(move, State.RUNNING), failure=BROKEN, carries=(PossibleDuplicate(),), delay=3.0)
    end = unwanted(decided)
    assert (end.move, end.target, end.warning) == (Move.CANCEL, State.CANCELLED, "cancelled while it ran")
    assert (end.failure, end.effect, is_duplicate(end)) == (BROKEN, Landed.MAYBE, False)
    assert (end.n, end.token, end.source) == (decided.n, decided.token, decided.source)


def test_no_approval_is_asked_for_what_nobody_wants_any_more():
    filing = Filing(id="a", bound=Bound("sha", "mail/send", "built-in"))
    decided = transition(Move.HOLD, State.RUNNING).carrying(filing, Use("grant", "job"))
    assert decided.rider(Filing) == filing
    end = unwanted(decided)
    assert (end.rider(Filing), end.rider(Use)) == (None, Use("grant", "job"))


def test_a_move_carries_one_value_of_a_type_and_the_last_one_counts():
    decided = transition(Move.RELEASE, State.HELD).carrying(Use("first", "job")).carrying(Use("second", "job"))
    assert decided.rider(Use) == Use("second", "job")
    assert decided.carries == (Use("second", "job"),)


@pytest.mark.parametrize("move", [Move.COMPLETE, Move.CANCEL])
def test_what_succeeded_or_stopped_by_itself_ends_as_it_is(move):
    end = replace(transition(move, State.RUNNING), warning="its own")
    assert unwanted(end) == end


@pytest.mark.parametrize(
    ("attempts", "due_later", "parked", "expected"),
    [
        (0, False, False, "queued"),
        (0, True, False, "scheduled"),
        (1, False, False, "retry_pending"),
        (3, True, False, "retry_pending"),
        (0, False, True, "parked"),
        (3, True, True, "parked"),
    ],
)
def test_view_of_a_queued_job(attempts, due_later, parked, expected):
    assert view("queued", attempts=attempts, due_later=due_later, parked=parked) == expected


@pytest.mark.parametrize("state", sorted(set(State) - {State.QUEUED}))
def test_view_of_any_other_job_is_its_state(state):
    assert view(state, attempts=3, due_later=True, parked=True) == state
