"""Routes about the audit chain."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from standfast.server.auth import check_whole
from standfast.server.route import Answer, Call, Route
from standfast.server.targets import found_job
from standfast.server.token_view import value_for, values_for
from standfast.wings.access.words import Right
from standfast.wings.audit.shapes import AuditPage, AuditVerdict
from standfast.wings.audit.verbs import Decisions


class WantedEntries(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which decisions."""

    after: Annotated[int, Meta(ge=0, lt=1 << 62)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    job: str | None = None
    operation_id: str | None = None
    """The same as `job`."""
    kind: str | None = None
    last: Annotated[int, Meta(ge=1, le=1000)] | None = None
    """The last so many, instead of those after `after`."""


async def audit(call: Call) -> Answer:
    """List decisions, in order."""
    wanted: WantedEntries = call.query
    job = wanted.job or wanted.operation_id
    if job is None:
        check_whole(call.grant, "Name a job of one of them.")
    elif call.grant.queues is not None:
        await found_job(call, job)
    found = await _found(call, wanted, job)
    return Answer({"items": values_for(found, call.grant), "next_after": found.next_after})


async def _found(call: Call, wanted: WantedEntries, job: str | None) -> Decisions:
    audit, which = call.sf.audit, {"job": job, "kind": wanted.kind}
    if wanted.last is not None:
        return await audit.last(wanted.last, within=None, **which)
    return await audit.entries(after=wanted.after, limit=wanted.limit, **which)


async def verify(call: Call) -> Answer:
    """Check whether the record, which covers all queues, is whole."""
    check_whole(call.grant)
    return Answer(value_for(await call.sf.audit.verify(), call.grant))


ROUTES = (
    Route(
        "GET",
        "/audit",
        Right.READ,
        audit,
        "List audited decisions, oldest first",
        query=WantedEntries,
        answer=AuditPage,
    ),
    Route("GET", "/audit/verify", Right.READ, verify, "Verify the audit chain", answer=AuditVerdict),
)
