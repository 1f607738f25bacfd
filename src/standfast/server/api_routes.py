"""All routes of the API, collected from the wings."""

from __future__ import annotations

from standfast.server.route import Route
from standfast.wings.alerts import routes as alerts
from standfast.wings.approvals import routes as approvals
from standfast.wings.audit import routes as audit
from standfast.wings.calls import routes as calls
from standfast.wings.consent import routes as consent
from standfast.wings.health import routes as health
from standfast.wings.jobs import bulk_routes
from standfast.wings.jobs import routes as jobs
from standfast.wings.letters import routes as letters
from standfast.wings.notices import routes as notices
from standfast.wings.policy import routes as policy
from standfast.wings.queues import routes as queues
from standfast.wings.redrives import routes as redrives
from standfast.wings.schedules import routes as schedules
from standfast.wings.sessions import routes as sessions
from standfast.wings.tokens import routes as tokens
from standfast.wings.workflows import routes as workflows

NOUNS = (
    *(jobs, bulk_routes, calls, letters, redrives, queues, health, alerts, approvals, consent, audit),
    *(policy, tokens, schedules, workflows, sessions, notices),
)
ROUTES: tuple[Route, ...] = tuple(route for noun in NOUNS for route in noun.ROUTES)
