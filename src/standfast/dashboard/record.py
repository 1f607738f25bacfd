"""Pages about who may do what, and who did: audit, policy, tokens."""

from __future__ import annotations

import time
from typing import Any

from standfast.access import Right, Role
from standfast.chain import KINDS
from standfast.dashboard.pages import Drawn, Visit
from standfast.redact import redacted

PAGE = 50


async def audit(visit: Visit) -> Drawn:
    """Show the last decisions, the newest first."""
    asked = visit.asked("job", "kind")
    wanted = {name: value for name, value in asked.items() if name == "job" or value in KINDS}
    found: list[dict[str, Any]] = await visit.sf.audit.last(PAGE, **wanted)
    reached = [each for each in reversed(found) if each.get("queue") is None or visit.grant.reaches(each["queue"])]
    shown = reached if visit.grant.may(Right.READ_PAYLOADS) else [redacted(each) for each in reached]
    return Drawn("audit.html", {"entries": shown, "asked": asked, "kinds": sorted(KINDS), "verdict": None})


async def verified(visit: Visit) -> Drawn:
    """Follow the whole chain, and say whether it is what was written."""
    started = time.monotonic()
    verdict = await visit.sf.audit.verify()
    shown = await audit(visit)
    return Drawn("audit.html", {**shown.context, "verdict": verdict, "took": time.monotonic() - started})


async def policy(visit: Visit) -> Drawn:
    """Show the policy in force."""
    return Drawn("policy.html", {"policy": await visit.sf.policy.show()})


async def tokens(visit: Visit) -> Drawn:
    """Show who has a token, without the secrets."""
    return Drawn("tokens.html", {"tokens": await visit.sf.tokens.list(), "roles": list(Role)})
