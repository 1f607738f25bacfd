"""The page of the policy in force, and the form that tries another one."""

from __future__ import annotations

from typing import Any

from standfast.dashboard.actions import Action
from standfast.dashboard.page import Page, RenderedPage, Visit
from standfast.server.auth import check_whole
from standfast.server.route import Call


async def policy(visit: Visit) -> RenderedPage:
    """Show the policy in force, which names all queues."""
    check_whole(visit.grant)
    return RenderedPage("policy.html", {"policy": await visit.sf.policy.show()})


def _tried(call: Call, said: Any) -> RenderedPage:
    return RenderedPage("policy_check.html", {"found": said, "text": call.body.text})


PAGES = (Page("/policy", policy),)
ACTIONS = (Action("/policy/check", "POST", "/policy/check", _tried),)
