"""The page of decisions: who did what, and whether the record is whole."""

from __future__ import annotations

import time
from typing import Any

from standfast.dashboard.page import Page, RenderedPage, Visit
from standfast.server import visible as reached
from standfast.server.auth import check_whole
from standfast.server.token_view import value_for, values_for
from standfast.wings.audit.words import KINDS
from standfast.wings.records.view import one_of

PAGE = 50
PHRASES = {
    "name": "token {}",
    "person": "for {}",
    "role": "role {}",
    "session": "session {}",
    "handler": "handler {}",
    "mode": "mode {}",
    "seconds": "for {} s",
    "uses": "{} times at most",
    "redrive": "redrive {}",
    "from": "which was {}",
    "canary": "canary {}",
    "rate": "rate {}",
    "approval": "approval {}",
    "asked_by": "asked by {}",
    "owner": "owner {}",
    "count": "{} letters",
    "backup": "from the backup {}",
    "source": "from {}",
    "problem": "{}",
    "why": "{}",
}
"""What the details of decisions mean, in the order in which they are listed."""


def about(entry: dict[str, Any]) -> str:
    """Say in words what a decision was about: whose token, which session, what changed."""
    detail = entry.get("detail") or {}
    phrases = [phrase.format(detail[name]) for name, phrase in PHRASES.items() if detail.get(name) is not None]
    if detail.get("filter"):
        phrases.append("where " + " and ".join(f"{name} is {value}" for name, value in detail["filter"].items()))
    if detail.get("changed"):
        phrases.append("changed " + " ".join(detail["changed"]))
    return ", ".join(phrases)


async def audit(visit: Visit) -> RenderedPage:
    """Show the last decisions, the newest first."""
    filters = visit.form_values("job", "kind")
    one_of("kind", filters.get("kind"), sorted(KINDS))
    scoped = not await _reaches(visit, filters.get("job"))
    which = {name: filters.get(name) for name in ("job", "kind")}
    found: list[dict[str, Any]] = [] if scoped else (await visit.sf.audit.last(PAGE, within=None, **which))[::-1]
    entries = [{**each, "about": about(each)} for each in values_for(found, visit.grant)]
    kinds = {"asked": filters, "kinds": sorted(KINDS)}
    return RenderedPage(
        "audit.html",
        {"entries": entries, "scoped": scoped, "verdict": None, **kinds},
    )


async def _reaches(visit: Visit, job: str | None) -> bool:
    """Return whether a visitor may read decisions: all, or those about a job in a queue of their token."""
    if visit.grant.queues is None:
        return True
    return job is not None and await reached.perhaps_job(visit.sf, visit.grant, job) is not None


async def verified(visit: Visit) -> RenderedPage:
    """Verify the whole chain, and say whether it is what was written."""
    check_whole(visit.grant)
    started = time.monotonic()
    verdict = value_for(await visit.sf.audit.verify(), visit.grant)
    listed = await audit(visit)
    return RenderedPage("audit.html", {**listed.context, "verdict": verdict, "took": time.monotonic() - started})


PAGES = (Page("/audit", audit), Page("/audit/verify", verified))
