"""Pages about consent: the jobs that wait for a person's answer, and the answers in force.

The answer is given on the job's page, which shows what will be done.
"""

from __future__ import annotations

from typing import Any

from standfast.dashboard.actions import Action, ReturnTo
from standfast.dashboard.page import Page, RenderedPage, Visit
from standfast.redact import redacted
from standfast.server.token_view import job_for, values_for
from standfast.views import JobView
from standfast.wings.consent.rules import awaits_consent

MOST_SHOWN = 200


async def list_page(visit: Visit) -> RenderedPage:
    """Show the jobs that wait for an answer, the oldest first, and what was granted or denied."""
    asks = [each for each in await visit.sf.consent.asks() if visit.grant.reaches(each["queue"])]
    grants = [
        each
        for each in await visit.sf.consent.list()
        if visit.grant.queues is None or visit.grant.reaches(each["handler"].rpartition("/")[0])
    ]
    context = {
        "asks": values_for(asks[:MOST_SHOWN], visit.grant),
        "grants": values_for(grants[:MOST_SHOWN], visit.grant),
        "waiting": len(asks),
        "granted": len(grants),
    }
    return RenderedPage("consents.html", context)


def what_is_asked(visit: Visit, job: JobView) -> dict[str, Any] | None:
    """Return what a job's page shows about the consent that it waits for; None if it waits for none."""
    if not awaits_consent(job):
        return None
    payload = job_for(job, visit.grant).get("payload")
    return {**visit.sf.consent.foreseen(job.queue, job.handler), "payload": redacted(payload)}


PAGES = (Page("/consents", list_page),)
ACTIONS = (
    Action(
        "/consents/{id}/grant",
        "POST",
        "/consents/{id}/grant",
        ReturnTo("/jobs/{id}", "consented", "Granted: the job goes on by itself."),
    ),
    Action(
        "/consents/{id}/deny",
        "POST",
        "/consents/{id}/deny",
        ReturnTo("/jobs/{id}", "not-consented", "Denied: this job ends here. Other jobs of the session still ask."),
    ),
    Action(
        "/consents",
        "POST",
        "/consents",
        ReturnTo("/consents", "consent-said", "Done: it counts from now on."),
    ),
    Action(
        "/consents/revoke",
        "POST",
        "/consents/revoke",
        ReturnTo("/consents", "consent-taken-back", "Taken back. What runs goes on; what comes next asks again."),
    ),
)
