"""The route to open alerts."""

from __future__ import annotations

from standfast.server.route import Answer, Call, Route
from standfast.server.token_view import alerts_for
from standfast.wings.access.words import Right
from standfast.wings.alerts.shapes import AlertList


async def alerts(call: Call) -> Answer:
    """List open alerts; a token for some queues gets only theirs."""
    return Answer({"items": alerts_for(await call.sf.alerts.list(), call.grant)})


ROUTES = (Route("GET", "/alerts", Right.READ, alerts, "List open alerts, the most harmful first", answer=AlertList),)
