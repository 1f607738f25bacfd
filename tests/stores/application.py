"""An application that uses every feature: the stores kept here were made by it, and are worked off by it.

`sick` has its dependencies down, as when the stores were made. Through the public interface only, so that it runs with
the code of any version.
"""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import UTC, datetime
from typing import Any

from standfast import Cancel, Effect, Permanent, Standfast, Transient, Uncertain, fixed
from standfast.testing import FrozenClock

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""When the stores were begun, by the clock of their world."""
AGAIN = 30
"""Seconds before a repeat."""
LEASE = 3600
"""Seconds: the clock can be moved by minutes, and no worker that lives loses its lease."""
SHORT_LEASE = 3
"""The lease of those whose worker dies."""

POLICY = """\
version: v1
dlq_rules:
  - match: {queue: flaky, reason_code: max_attempts}
    action: auto_replay
    max_replays: 2
    backoff: {base: 400, cap: 400}
  - match: {queue: refunds}
    action: require_approval
    approver_group: treasury
  - match: {reason_code: schema_invalid}
    action: quarantine
    owner: integration-team
replay_rules:
  - match: {risk: high}
    decision: require_approval
    approver_group: treasury
  - match: {queue: "payments*"}
    decision: deny
    why: payments are replayed by the ledger
  - match: {}
    decision: allow
"""


def clock_at(seconds: float) -> FrozenClock:
    """Give the clock of the stores' world, so many seconds after they were begun."""
    clock = FrozenClock(BEGAN)
    clock.advance(seconds)
    return clock


def reopened(seconds: float) -> FrozenClock:
    """Give that clock on a machine that was started anew meanwhile, as for every machine that opens what is kept."""
    clock = clock_at(seconds)
    clock.reboot()
    return clock


def declare(sf: Standfast, *, sick: bool) -> None:
    """Declare every queue and handler."""
    _plain(sf)
    _failing(sf, sick=sick)
    _ordered(sf, sick=sick)
    _effects(sf, sick=sick)
    _orphans(sf, sick=sick)
    _sessions(sf, sick=sick)
    sf.queue("beats", lease=1)  # nobody uses it: it has workers look after everything three times a second
    sf.handler("beats")(lambda _job: None)


def _plain(sf: Standfast) -> None:
    for queue in ("mail", "paused", "steps", "later", "ticks", "gone"):
        sf.queue(queue, lease=LEASE, keep_completed="30d")

        @sf.handler(queue)
        async def plain(job: Any) -> Any:
            if isinstance(job.payload, dict) and job.payload.get("unwanted"):
                return Cancel("unwanted")
            return {"done": job.payload, "after": {name: job.parents[name] for name in sorted(job.parents)}}


def _failing(sf: Standfast, *, sick: bool) -> None:
    for queue in ("flaky", "refunds", "payments", "seats", "broken"):
        sf.queue(queue, attempts=3, backoff=fixed(AGAIN), lease=LEASE, dead_warning=2)

    @sf.handler("flaky")
    async def flaky(job: Any) -> Any:
        if sick:
            raise Transient(f"warehouse is down for {job.payload['n']}", reason_code="dependency_unavailable")
        return {"loaded": job.payload["n"]}

    @sf.handler("refunds", risk="high")
    async def refund(job: Any) -> Any:
        if sick:
            raise Permanent("the bank refuses", error_kind="BankRefused")
        return {"refunded": job.payload["n"]}

    @sf.handler("payments", replay="manual")
    async def pay(job: Any) -> Any:
        if sick:
            raise Uncertain("the bank did not answer")
        return {"paid": job.payload["n"]}

    for queue in ("seats", "broken"):

        @sf.handler(queue)
        async def provision(job: Any) -> Any:
            if sick:
                raise Permanent("no seats are left", error_kind="SeatsExhausted")
            return {"seat": job.payload["n"]}


def _ordered(sf: Standfast, *, sick: bool) -> None:
    sf.queue("latest", coalesce="latest", lease=LEASE)
    sf.queue("collected", coalesce="collect", lease=LEASE)
    sf.queue("ordered", coalesce="never", attempts=4, backoff=fixed(AGAIN), lease=LEASE)
    sf.queue("rated", rate={"key": "payload.tenant", "limit": 1, "per": "120s"}, lease=LEASE)
    sf.queue("limited", concurrency={"key": "payload.tenant", "limit": 1}, lease=SHORT_LEASE if sick else LEASE)
    sf.queue("gated", gate=lambda: not sick, lease=LEASE)
    for queue in ("latest", "collected", "rated", "gated"):

        @sf.handler(queue)
        async def echo(job: Any) -> Any:
            return job.payload

    @sf.handler("ordered")
    async def in_order(job: Any) -> Any:
        if sick and job.payload["n"] == 1:
            raise Transient("not yet")
        return job.payload["n"]


def _effects(sf: Standfast, *, sick: bool) -> None:
    async def look(job: Any) -> Any:
        await asyncio.sleep(0)
        return {"there": True, "absent": False, "unclear": "indeterminate"}[job.payload["look"]]

    sf.queue("tickets", attempts=4, backoff=fixed(AGAIN), lease=LEASE)

    @sf.handler("tickets", replay="verify_first", effects=[Effect("ticket", look)])
    async def ticket(job: Any) -> Any:
        async with job.effect("ticket") as effect:
            if sick and job.payload["look"] != "fine":
                raise Uncertain("the ticket system did not answer")
            if not effect.done:
                effect.record({"number": job.payload["n"]})
        return {"ticket": job.payload["n"], "receipt": effect.receipt}


def _orphans(sf: Standfast, *, sick: bool) -> None:
    """Have handlers that take their process with them."""
    sf.queue("orphans", attempts=4, backoff=fixed(AGAIN), lease=SHORT_LEASE if sick else LEASE)

    async def die(job: Any) -> Any:
        async with job.effect("note") as effect:
            if sick:
                os.kill(os.getpid(), signal.SIGKILL)
            effect.record("noted")
        return {"survived": job.payload["n"]}

    sf.handler("orphans", effects=[Effect("note")])(die)
    sf.handler("limited", effects=[Effect("note")])(die)


def _sessions(sf: Standfast, *, sick: bool) -> None:
    sf.queue("tools", attempts=1, lease=LEASE)

    @sf.handler("tools", consent=True)
    async def guarded(job: Any) -> Any:
        return {"tool": job.payload}

    @sf.handler("tools", name="open")
    async def unguarded(job: Any) -> Any:
        if sick and job.payload.get("fail"):
            raise Permanent("the tool is gone", error_kind="ToolGone")
        return {"tool": job.payload}
