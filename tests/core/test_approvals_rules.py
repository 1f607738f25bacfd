"""Who may answer an approval, and what makes it void."""

from __future__ import annotations

import msgspec
import pytest

from standfast.lifecycle import JobRef as Job
from standfast.lifecycle import Move, State
from standfast.wings.approvals.rules import (
    cannot_answer,
    changed,
    deny_held,
    hold_for_approval,
    is_repeated_answer,
    is_somebody,
    may_not_approve,
    missing_groups,
    same_person,
    void_because,
    wants_more,
)
from standfast.wings.approvals.words import Answer, Approval, ApprovalState, Bound, Filing, bound_to, target_of
from tests.core.carried import reason_of

BOUND = Bound("abc", "mail/mail", "first", 0)
PENDING = Approval(
    id="a",
    n=1,
    redrive=None,
    job="job-1",
    queue="mail",
    state=ApprovalState.PENDING,
    asked_by="alex",
    reason=None,
    requesters=("rita",),
    groups=("governance", "finance"),
    bound=BOUND,
    rule="rule#1",
    asked_at=0.0,
    expires_at=100.0,
    answered_by=None,
    answered_at=None,
    answer=None,
)
BOTH = ("finance", "governance", "others")


@pytest.mark.parametrize(
    ("by", "groups", "why"),
    [
        ("bea", BOTH, None),
        ("alex", BOTH, "asked for it"),
        ("Alex ", BOTH, "asked for it"),
        ("rita", BOTH, "requested the work"),
        ("bea", ("finance",), "the group governance"),
        ("bea", (), "the groups finance, governance"),
    ],
)
def test_who_may_approve(by, groups, why):
    found = may_not_approve(PENDING, by, groups)
    assert found is None if why is None else why in (found or "")


def test_what_the_policy_asked_for_itself_has_no_asker():
    asked = msgspec.structs.replace(PENDING, asked_by=None, requesters=(), groups=())
    assert may_not_approve(asked, "anybody", ()) is None


@pytest.mark.parametrize(
    ("state", "now", "why"),
    [
        (ApprovalState.PENDING, 99.9, None),
        (ApprovalState.PENDING, 100.0, "expired"),
        (ApprovalState.EXPIRED, 0.0, "expired"),
        (ApprovalState.VOID, 0.0, "void"),
        (ApprovalState.APPROVED, 0.0, "bea approved it before"),
        (ApprovalState.USED, 0.0, "bea approved it before"),
        (ApprovalState.DENIED, 0.0, "bea denied it before"),
    ],
)
def test_what_takes_no_answer_any_more(state, now, why):
    found = cannot_answer(msgspec.structs.replace(PENDING, state=state, answered_by="bea"), now)
    assert found is None if why is None else why in (found or "")


@pytest.mark.parametrize("state", ApprovalState)
def test_the_same_answer_is_told_again_and_no_other(state):
    approval = msgspec.structs.replace(PENDING, state=state)
    assert is_repeated_answer(approval, "approved") == (state in (ApprovalState.APPROVED, ApprovalState.USED))
    assert is_repeated_answer(approval, "denied") == (state == ApprovalState.DENIED)


@pytest.mark.parametrize(
    ("part", "value", "word"),
    [
        ("payload_sha256", "other", "its payload"),
        ("target", "mail/other", "its target"),
        ("snapshot", "second", "the policy"),
        ("generation", 1, "its generation"),
    ],
)
def test_every_part_of_a_binding_counts(part, value, word):
    assert changed(BOUND, BOUND) == []
    found = changed(BOUND, msgspec.structs.replace(BOUND, **{part: value}))
    assert found == [word]
    assert void_because(found) == f"{word} changed since it was asked for"


def test_the_target_of_a_request_is_its_method_and_address():
    payload = '{"method":"POST","url":"https://example.com/a","body":1}'
    assert target_of("mail", "http", payload) == "mail/http POST https://example.com/a"
    assert target_of("mail", "mail", payload) == "mail/mail"
    assert target_of("mail", "http", "[]") == "mail/http"
    assert bound_to("mail", "http", payload, 0, "s") != bound_to("mail", "http", payload.replace("/a", "/b"), 0, "s")


def test_one_person_is_one_however_spelt():
    assert same_person("Bea", " bea")
    assert not same_person("bea", "beat")


@pytest.mark.parametrize("state", [State.DEAD, State.HELD])
def test_asking_holds_and_a_no_lets_it_die(state):
    job = Job(1, 2, "job-1", "mail", state)
    filing = Filing(id="a", bound=BOUND, asked_by="alex\n", reason="mended")
    hold = hold_for_approval(job, filing, 3)
    no = deny_held(job, Answer("a", ApprovalState.PENDING, ApprovalState.DENIED, "bea", "unsafe"), None, 3)
    if state == State.HELD:
        assert hold is None
        assert no is not None
        assert (no.move, no.source, no.actor, reason_of(no), no.failure) == (
            Move.DIE,
            State.HELD,
            "bea",
            "unsafe",
            None,
        )
    else:
        assert no is None
        assert hold is not None
        assert (hold.move, hold.token, hold.rider(Filing)) == (Move.HOLD, 2, filing)
        assert "\n" not in (hold.actor or "")


@pytest.mark.parametrize(
    "name",
    [
        "ann",
        "ANN",
        " ann ",
        "a nn",
        "a\u200bnn",
        "\uff41\uff4e\uff4e",
        "an\u00adn",
        "a\u00a0nn",
        "ann\ufe0f",
        "an\u034fn",
        "ann\u3164",
    ],
)
def test_one_person_however_the_name_is_written(name):
    assert same_person("ann", name)
    assert is_somebody(name)


@pytest.mark.parametrize("name", ["anne", "an", "a-nn", "bob"])
def test_another_person(name):
    assert not same_person("ann", name)


@pytest.mark.parametrize("name", ["", " ", "\u200b", "\u00a0\u2003"])
def test_nobody(name):
    assert not is_somebody(name)


def test_a_group_that_was_not_asked():
    assert missing_groups(PENDING, ("finance",)) == []
    assert missing_groups(PENDING, ("finance", "crm", "board")) == ["board", "crm"]
    assert "the groups board, crm" in wants_more(PENDING, ("finance", "crm", "board"))
