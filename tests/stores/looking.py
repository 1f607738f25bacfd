"""Look at a store through the public interface: every job, and what stands beside the jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from standfast import JobView, Standfast

SESSIONS = ("agent-1", "agent-2", "agent-3")
ENDS = ("state", "view", "reason", "result", "warning", "attempts", "generation", "idempotency_key", "superseded_by")
"""What must be the same in the end, whoever worked it off and when."""

MESSAGE = ("id", "kind", "job_id", "read", "at", "session", "state", "attempts")
ALERT = ("kind", "queue", "subject", "since", "value", "threshold")
WORDED = frozenset({"advice", "hint"})
"""What is worded when it is asked for, and may be worded better by a later version."""

Look = dict[str, Any]


async def look(sf: Standfast) -> Look:
    """Give all there is. It marks messages as read: look at a copy."""
    return {"jobs": await jobs(sf), "beside": _plain(await _beside(sf))}


async def jobs(sf: Standfast) -> Look:
    """Give every job as a person sees it, by id."""
    found: dict[str, JobView] = {}
    cursor = None
    while True:
        page = await sf.jobs(limit=100, cursor=cursor)
        for job in page:
            whole = await sf.status(job.id)
            assert whole is not None
            found[job.id] = whole
        cursor = page.next_cursor
        if cursor is None:
            return {job_id: _plain(found[job_id]) for job_id in sorted(found)}


async def ends(sf: Standfast) -> Look:
    """Give how every job stands, without what depends on when it was run, and by whom."""
    return {job_id: {name: job[name] for name in ENDS} for job_id, job in (await jobs(sf)).items()}


async def _beside(sf: Standfast) -> Look:
    stats = await sf.stats()
    flows = [each["id"] for each in await sf.workflows.list()]
    return {
        "letters": [letter.id for letter in await sf.dead_letters.list(limit=100)],
        "groups": await sf.dead_letters.groups(),
        "approvals": await sf.approvals.list(None),
        "redrives": await sf.dead_letters.redrives.list(),
        "workflows": {flow: await sf.workflows.get(flow) for flow in sorted(flows)},
        "schedules": await sf.schedules.list(),
        "messages": {session: _parts(await sf.inbox.list(session, unread=False), MESSAGE) for session in SESSIONS},
        "consents": {session: await sf.consent.list(session) for session in SESSIONS},
        "tokens": await sf.tokens.list(),
        "policy": await sf.policy.show(),
        "decisions": await sf.audit.entries(limit=500),
        "audit": await sf.audit.verify(),
        "queues": await sf.queues.list(),
        "counts": {
            name: stats[name] for name in ("total_pending", "total_processing", "total_dead_letter", "counters")
        },
        "alerts": _parts((await sf.health())["alerts"], ALERT),
    }


def _parts(found: Iterable[Look], names: Iterable[str]) -> list[Look]:
    return [{name: each[name] for name in names} for each in found]


def _plain(value: Any) -> Any:
    """Give a value as JSON has it, without advice."""
    return _unworded(json.loads(msgspec.json.encode(value)))


def _unworded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unworded(part) for name, part in value.items() if name not in WORDED}
    return [_unworded(part) for part in value] if isinstance(value, list) else value


def differences(kept: Any, found: Any, place: str = "") -> Iterator[str]:
    """Name what is not as it was kept. What a later version shows besides is no difference."""
    if isinstance(kept, dict) and isinstance(found, dict):
        for name, value in kept.items():
            where = f"{place}.{name}"
            yield from differences(value, found[name], where) if name in found else [f"{where} is missing"]
    elif isinstance(kept, list) and isinstance(found, list) and len(kept) == len(found):
        for n, (one, other) in enumerate(zip(kept, found, strict=True)):
            yield from differences(one, other, f"{place}[{n}]")
    elif kept != found:
        yield f"{place} was {kept!r} and is {found!r}"
