"""Tokens from the command line, on every kind of store."""

import asyncio
import json

import pytest

from standfast import Standfast
from standfast.wings.access.words import Grant, Right, Role
from tests.doors.conftest import Cli

pytestmark = pytest.mark.usefixtures("every_store")


def create(cli: Cli, *more: str) -> str:
    """Make a token and give its text."""
    made = cli("token", "create", "ci", "--role", "producer", "--person", "ann", "--json", *more)
    assert made.exit_code == 0, made.output
    return str(json.loads(made.output)["token"])


def granted(token: str) -> Grant | None:
    """Tell what a token stands for, as a server would."""

    async def ask() -> Grant | None:
        async with Standfast() as sf:
            return await sf.tokens.grant(token)

    return asyncio.run(ask())


def test_a_token_stands_for_what_it_was_made_for(cli: Cli) -> None:
    """Person, role, groups and queues come back; the list has no secret."""
    token = create(cli, "--group", "platform", "--queues", "mail,billing")
    grant = granted(token)
    assert grant is not None
    assert (grant.person, grant.role, grant.groups) == ("ann", Role.PRODUCER, ("platform",))
    assert grant.queues == ("mail", "billing")
    assert grant.may(Right.ENQUEUE)
    assert granted(token[:-1]) is None
    assert granted(f"{token}x") is None
    listed = cli("token", "list", "--json").output
    assert "ann" in listed
    assert token.split("_", 2)[2] not in listed


def test_a_revoked_token_counts_no_more_and_its_name_is_free(cli: Cli) -> None:
    """Both are chained in the audit."""
    token = create(cli)
    assert cli("token", "create", "ci", "--role", "viewer", "--person", "bob").exit_code == 2
    assert cli("token", "revoke", "ci").exit_code == 0
    assert cli("token", "revoke", "ci").exit_code == 3
    assert granted(token) is None
    chained = json.loads(cli("audit", "log", "--json").output)["items"]
    assert sorted(each["outcome"] for each in chained if each["kind"] == "tokens") == ["created", "revoked"]
    assert create(cli) != token


def test_a_token_expires(cli: Cli) -> None:
    """Not a moment later."""
    token = create(cli, "--expires", "0.001")
    assert granted(token) is None


@pytest.mark.parametrize(
    ("name", "person", "role"), [("", "ann", "viewer"), ("a", "", "viewer"), ("a\n", "ann", "viewer")]
)
def test_names_that_could_not_be_shown_are_refused(cli: Cli, name: str, person: str, role: str) -> None:
    """With one line, and nothing is made."""
    refused = cli("token", "create", name, "--role", role, "--person", person)
    assert refused.exit_code == 2
    assert "printable" in refused.output
