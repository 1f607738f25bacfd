"""The page of the policy in force, and the form that tries another."""

from __future__ import annotations

from typing import Any

from standfast.dashboard.actions import Action
from standfast.dashboard.page import Drawn, Page, Visit
from standfast.server.auth import check_whole
from standfast.server.route import Call


async def policy(visit: Visit) -> Drawn:
    """Show the policy in force, which names all queues."""
    check_whole(visit.grant)
    return Drawn("policy.html", {"policy": await visit.sf.policy.show()})


def _tried(call: Call, said: Any) -> Drawn:
    return Drawn("policy_check.html", {"found": said, "text": call.body.text})


PAGES = (Page("/policy", policy),)
ACTIONS = (Action("/policy/check", "POST", "/policy/check", _tried),)
