"""A token for some queues gets nothing of the others, at whichever route names a queue."""

from __future__ import annotations

from typing import Any

import pytest

from standfast.server.api_routes import ROUTES
from standfast.server.route import Route
from tests.doors.test_rest_guards import client, sf

__all__ = ["sf"]

NAMED = [route for route in ROUTES if route.path.startswith("/queues/{name}")]


def test_there_are_routes_about_one_queue():
    assert NAMED


@pytest.mark.parametrize("route", NAMED, ids=lambda route: f"{route.method} {route.path}")
async def test_a_route_about_one_queue_refuses_a_token_for_another(sf, route: Route):
    """Whoever adds such a route must ask `check_queue`."""
    async with await client(sf, "admin", queues=["ours"]) as scoped:
        body: dict[str, Any] = {"json": {"reason": "because"}} if route.method != "GET" else {}
        refused = await scoped.request(route.method, route.path.replace("{name}", "theirs").lstrip("/"), **body)
        assert refused.status_code == 403, refused.text
        allowed = await scoped.request(route.method, route.path.replace("{name}", "ours").lstrip("/"), **body)
        assert allowed.status_code != 403, allowed.text
