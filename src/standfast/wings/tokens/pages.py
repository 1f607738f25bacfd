"""The page of tokens."""

from __future__ import annotations

from typing import Any

from standfast.dashboard.actions import Action, ReturnTo
from standfast.dashboard.page import Page, RenderedPage, Visit
from standfast.server.auth import check_whole
from standfast.server.route import Call
from standfast.wings.access.words import Right, Role


async def tokens(visit: Visit) -> RenderedPage:
    """Show the tokens and their owners, without the secrets."""
    check_whole(visit.grant)
    return RenderedPage("tokens.html", {"tokens": await visit.sf.tokens.list(), "roles": list(Role)})


def _minted(_: Call, said: Any) -> RenderedPage:
    return RenderedPage("token.html", {"made": said})


PAGES = (Page("/tokens", tokens, Right.ADMINISTER),)
ACTIONS = (
    Action("/tokens", "POST", "/tokens", _minted),
    Action(
        "/tokens/{name:path}/revoke", "DELETE", "/tokens/{name}", ReturnTo("/tokens", "revoke", "The token is revoked.")
    ),
)
