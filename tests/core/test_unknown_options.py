"""Options that a call does not take: the error names the one that was probably meant."""

from typing import Any

import pytest

from standfast import Standfast
from standfast.errors import ConfigurationError

MISTYPED: Any = {"uRl": "q.db"}
NOT_EFFECTS: Any = {"efects": ()}
"""Untyped: a type checker finds them too."""


def test_a_mistyped_option_of_standfast_is_named_with_the_nearest():
    with pytest.raises(ConfigurationError, match=r"unknown option of Standfast 'uRl' \(did you mean 'url'\?\)"):
        Standfast(**MISTYPED)


def test_a_mistyped_option_of_a_handler_is_named_with_the_nearest():
    with pytest.raises(ConfigurationError, match=r"option of @sf.handler 'efects' \(did you mean 'effects'\?\)"):
        Standfast(":memory:").handler("mail", **NOT_EFFECTS)


@pytest.mark.parametrize(("option", "rule"), [("retries", "attempts"), ("lease", "lease")])
def test_a_rule_of_the_queue_given_to_a_handler_says_where_it_belongs(option, rule):
    given: Any = {option: 3}
    with pytest.raises(ConfigurationError, match=rf"write sf\.queue\('mail', {rule}=3\)"):
        Standfast(":memory:").handler("mail", **given)


@pytest.mark.parametrize("verb", ["run", "submit"])
async def test_a_call_with_key_is_told_of_idempotency_key(verb):
    async with Standfast(":memory:") as sf:

        @sf.handler("mail")
        def send(_job):
            return "sent"

        for call in (getattr(send, verb)({}, key="x"), getattr(sf, verb)("mail", {}, key="x")):
            with pytest.raises(ConfigurationError, match=rf"option of {verb} 'key' \(did you mean 'idempotency_key'"):
                await call
