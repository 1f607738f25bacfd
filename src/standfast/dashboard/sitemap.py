"""All pages and forms of the dashboard, collected from the wings."""

from __future__ import annotations

from standfast.dashboard.actions import Action
from standfast.dashboard.page import Page
from standfast.wings.approvals import pages as approvals
from standfast.wings.audit import pages as audit
from standfast.wings.consent import pages as consent
from standfast.wings.health import pages as health
from standfast.wings.jobs import pages as jobs
from standfast.wings.letters import pages as letters
from standfast.wings.policy import pages as policy
from standfast.wings.queues import pages as queues
from standfast.wings.redrives import pages as redrives
from standfast.wings.schedules import pages as schedules
from standfast.wings.tokens import pages as tokens
from standfast.wings.workflows import pages as workflows

PAGES: tuple[Page, ...] = (
    *(*health.PAGES, *queues.PAGES, *jobs.PAGES, *letters.PAGES, *redrives.PAGES, *approvals.PAGES),
    *(*consent.PAGES, *workflows.PAGES, *schedules.PAGES, *audit.PAGES, *policy.PAGES, *tokens.PAGES),
)
ACTIONS: tuple[Action, ...] = (
    *(*jobs.ACTIONS, *letters.ACTIONS, *redrives.ACTIONS, *approvals.ACTIONS, *queues.ACTIONS),
    *(*consent.ACTIONS, *schedules.ACTIONS, *workflows.ACTIONS, *policy.ACTIONS, *tokens.ACTIONS),
)
