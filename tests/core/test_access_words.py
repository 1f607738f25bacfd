"""Roles and tokens: who may do what, and what is kept of a secret."""

import pytest

from standfast.wings.access.words import RIGHTS, Grant, Right, Role, fingerprint, mint, read, same

EXPECTED = {
    Role.VIEWER: "read",
    Role.PRODUCER: "enqueue read_own",
    Role.OPERATOR: "enqueue read read_own read_payloads operate",
    Role.APPROVER: "read read_payloads approve",
    Role.ADMIN: "read read_own read_payloads enqueue operate approve administer",
}


@pytest.mark.parametrize("role", Role)
def test_a_role_may_do_what_the_table_says_and_nothing_more(role: Role) -> None:
    """SEMANTICS pins the roles."""
    grant = Grant(id="1", name="n", person="p", role=role)
    assert {right for right in Right if grant.may(right)} == set(EXPECTED[role].split())
    assert set(RIGHTS) == set(Role)


def test_nobody_but_admin_and_approver_answers_approvals() -> None:
    """An operator who plans a redrive does not approve it."""
    assert [role for role in Role if Right.APPROVE in RIGHTS[role]] == [Role.APPROVER, Role.ADMIN]


def test_a_token_reaches_only_its_queues() -> None:
    """None is all of them, and an empty list is none."""
    assert Grant(id="1", name="n", person="p", role=Role.VIEWER).reaches("mail")
    assert Grant(id="1", name="n", person="p", role=Role.VIEWER, queues=("mail",)).reaches("mail")
    assert not Grant(id="1", name="n", person="p", role=Role.VIEWER, queues=("mail",)).reaches("billing")
    assert not Grant(id="1", name="n", person="p", role=Role.VIEWER, queues=()).reaches("mail")


def test_a_token_is_read_back_and_its_secret_is_not_in_what_is_kept() -> None:
    """What is kept is a hash: nobody who reads the store can show the token."""
    minted = mint()
    assert read(minted.text) == (minted.id, minted.hash)
    secret = minted.text.split("_", 2)[2]
    assert secret not in minted.hash
    assert len(secret) >= 43  # 256 bits in base64
    assert mint().text != minted.text


@pytest.mark.parametrize(
    "text", ["", "sft", "sft__", "abc_1_2", "sft_a/b_c", "sft_ä_secret", "sft_a_sécret", "Bearer x"]
)
def test_what_is_no_token_is_none(text: str) -> None:
    """Anybody can send anything."""
    assert read(text) is None


def test_fingerprints_are_compared_whole() -> None:
    """A beginning is not enough."""
    assert same(fingerprint("a"), fingerprint("a"))
    assert not same(fingerprint("a"), fingerprint("b"))
    assert not same(fingerprint("a"), fingerprint("a")[:10])
