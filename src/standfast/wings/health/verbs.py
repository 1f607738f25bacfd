"""How the whole store is doing: facts from the store, judged by `wings.health.rules`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from standfast.errors import StoreUnavailable, WrongAddress
from standfast.profiles import rules_from, stored_rules
from standfast.store.store import Store
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.phrasing import shown
from standfast.wings.alerts.words import Condition, Key
from standfast.wings.calls.words import CALLER
from standfast.wings.health import outbox_status
from standfast.wings.health import scripts as health_scripts
from standfast.wings.health.differing_declarations import conflicts, overruled
from standfast.wings.health.marks import blocked_by, lately
from standfast.wings.health.outbox_status import OutboxStatus
from standfast.wings.health.queue_findings import DENIALS_WITHIN, GROWTH_WITHIN, QueueFacts
from standfast.wings.health.rules import LATE_SWEEPS, MissingWorker, StoreFacts, conditions, issues, status
from standfast.wings.health.scripts import Counters, Facts, Missing, QueueRow, WorkerRow
from standfast.wings.health.strain import issues as issues_of_strain
from standfast.wings.health.summing import sum_counters
from standfast.wings.limits import holds
from standfast.wings.limits import words as gates
from standfast.wings.limits.outages import Outage, dependency_of
from standfast.wings.limits.words import Closing, Row
from standfast.wings.policy import scripts as policies
from standfast.wings.policy.policy_in_force import of_store
from standfast.wings.policy.scripts import PolicyActivity
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.queues.pauses import Pause
from standfast.wings.records.view import moments
from standfast.wings.redrives import redrive_reads
from standfast.wings.redrives.rules import issues_of_halts
from standfast.wings.relay.outboxes import CountedOutbox
from standfast.wings.relay.stuck import STUCK
from standfast.wings.relay.stuck import issues as issues_of_outboxes
from standfast.wings.relay.verbs import SpoolStatus, server_message
from standfast.wings.schedules import declared_scripts as declared_schedules
from standfast.wings.schedules import scripts as schedules
from standfast.wings.schedules.rules import OVERDUE_AFTER, LateSchedule, issues_of_gone
from standfast.wings.schedules.rules import issues as issues_of_schedules
from standfast.wings.workflows import graphs
from standfast.wings.workflows.rules import issues as issues_of_workflows
from standfast.worker import lifeline
from standfast.worker.upkeep import JUMPED, UNSTARTED, UNWRITTEN

SILENT_AFTER = 30.0
"""A worker whose last heartbeat is older than this, three of the longest intervals, does not count as live."""
SWEEP_EVERY = 10.0
JUMP_SHOWN = 86400.0
STUCK_SHOWN = 10


async def observe(store: Store) -> tuple[Facts, StoreFacts]:
    """Read the facts that health and alerts are judged by: as the store has them, and as the rules take them."""
    await sum_counters(store)
    facts = await store.read(
        health_scripts.facts(
            store.now(), store.boot(), silent_after=SILENT_AFTER, unmoved_for=LATE_SWEEPS * SWEEP_EVERY
        )
    )
    now = store.now()
    activity = await store.read(
        policies.policy_activity(now, letters_within=GROWTH_WITHIN, refusals_within=DENIALS_WITHIN)
    )
    judged = _store_facts(facts, now, store.skew(), disk_low=store.location.disk_low())
    judged = _governed(judged, activity, facts.queues)
    failing = tuple((name, now - since, why) for name, since, why in await store.read(alerts.sinks()))
    return facts, msgspec.structs.replace(judged, failing_sinks=failing)


async def wrong_now(store: Store) -> dict[Key, Condition]:
    """Return everything that is wrong just now and is an alert."""
    facts, judged = await observe(store)
    return _wrong(judged, _outboxes(store, facts))


def _wrong(judged: StoreFacts, outboxes: Sequence[OutboxStatus]) -> dict[Key, Condition]:
    return {**conditions(judged), **{each.key: each for each in outbox_status.conditions(outboxes)}}


def _outboxes(store: Store, facts: Facts, counted: Sequence[CountedOutbox] = ()) -> list[OutboxStatus]:
    return outbox_status.statuses(facts.upkeep, counted, now=store.now(), skew=store.skew())


async def health(
    store: Store, spooled: SpoolStatus | None = None, counted: Sequence[CountedOutbox] = ()
) -> dict[str, Any]:
    """Judge the store by what it holds. Any process gives the same answer, except for jobs that wait on its host.

    `counted` are the outboxes that this process can look into; of others it knows what the store knows.
    """
    facts, judged = await observe(store)
    outboxes = _outboxes(store, facts, counted)
    found = [f"store: {store.trouble}"] if store.trouble else []
    if spooled is not None and spooled.issue:
        found.append(spooled.issue)
    found += [each.issue for each in outboxes if each.issue is not None]
    found += issues(judged)
    found += issues_of_outboxes(lately(facts, STUCK, store.now()))
    strain = await store.read(health_scripts.strain(store.now()))
    found += issues_of_strain(
        strain.snapshots, dead=strain.dead, live=strain.live, promotion=strain.promotion, wal=store.location.wal()
    )
    found += issues_of_halts(await store.read(redrive_reads.halted()))
    found += issues_of_workflows(await store.read(graphs.stuck(STUCK_SHOWN + 1)), STUCK_SHOWN)
    late = [LateSchedule(*each) for each in await store.read(schedules.late(*store.times(), OVERDUE_AFTER))]
    found += issues_of_schedules(late, workers=bool(facts.workers))
    found += issues_of_gone(await store.read(declared_schedules.gone(store.now())))
    anchor_error = store.anchor.problem
    if anchor_error:
        found.append(f"audit: the chain's head cannot be noted in {anchor_error}; a cut end would not show there")
    return {
        "status": status(found),
        "total_pending": sum(queue.counts.due for queue in facts.queues),
        "total_dead_letter": sum(queue.counts.letters for queue in facts.queues),
        "total_awaiting_consent": sum(queue.awaiting_consent for queue in facts.queues),
        "paused_queues": sum(bool(queue.paused) for queue in facts.queues),
        "issues": found,
        "alerts": shown(await store.read(alerts.standing()), store.skew(), _wrong(judged, outboxes)),
        "spool": spooled and spooled.summary(),
        "outboxes": [each.display() for each in outboxes],
    }


def store_away(error: StoreUnavailable | WrongAddress, spooled: SpoolStatus | None) -> dict[str, Any]:
    """Report a store that cannot be read: what it holds is unknown; the jobs that wait on this host are in `spool`."""
    issue = None if spooled is None else spooled.issue
    return {
        "status": "degraded",
        "total_pending": None,
        "total_dead_letter": None,
        "total_awaiting_consent": None,
        "paused_queues": None,
        "issues": [f"store: {server_message(error)}", *([issue] if issue else [])],
        "alerts": [],
        "spool": None if spooled is None else spooled.summary(),
        "outboxes": [],
    }


async def stats(
    store: Store, spooled: SpoolStatus | None = None, counted: Sequence[CountedOutbox] = ()
) -> dict[str, Any]:
    """Show counts: what the store has now, and what happened so far."""
    facts, counters = await _survey(store)
    now, skew = store.now(), store.skew()
    oldest = min((queue.oldest_due_at for queue in facts.queues if queue.oldest_due_at is not None), default=None)
    return {
        "total_pending": sum(queue.counts.due for queue in facts.queues),
        "total_processing": sum(queue.counts.running for queue in facts.queues),
        "total_dead_letter": sum(queue.counts.letters for queue in facts.queues),
        "total_awaiting_consent": sum(queue.awaiting_consent for queue in facts.queues),
        "paused_queues": sum(bool(queue.paused) for queue in facts.queues),
        "queue_depths": {queue.name: queue.counts.due for queue in facts.queues},
        "oldest_pending_seconds": None if oldest is None else now - oldest,
        "next_retry_at": msgspec.to_builtins(moments(skew)(facts.next_due_at)),
        "worker_running": bool(facts.workers),
        "workers": [worker_facts(worker, now) for worker in facts.workers],
        "counters": _summed_counters(counters),
        "queues": _counts(facts, counters, store.skew()),
        "gates": [_gate(row, now, skew) for row in facts.gates],
        "spool": spooled and spooled.display(),
        "outboxes": [each.display() for each in _outboxes(store, facts, counted)],
    }


async def queues(store: Store) -> dict[str, dict[str, Any]]:
    """Return every queue with its rules in force, what it holds, and how many live workers serve it."""
    facts, counters = await _survey(store)
    counts, serving = _counts(facts, counters, store.skew()), _serving(facts)
    handlers = await store.read(queue_scripts.handlers_by_queue())
    return {
        queue.name: {
            **counts[queue.name],
            "workers": serving[queue.name],
            "rules": stored_rules(queue.name, queue.rules),
            "handlers": handlers.get(queue.name, []),
            "rules_from": rules_from(queue.name, queue.rules),
        }
        for queue in sorted(facts.queues)
    }


TOTALS = {
    "due": "total_pending",
    "running": "total_processing",
    "letters": "total_dead_letter",
    "awaiting_consent": "total_awaiting_consent",
    "paused": "paused_queues",
}
"""The counts of queues that are also shown as sums, and the names of the sums."""


async def _survey(store: Store) -> tuple[Facts, Counters]:
    await sum_counters(store)
    return await store.read(health_scripts.survey(store.now(), store.boot(), silent_after=SILENT_AFTER))


def worker_facts(worker: WorkerRow, now: float) -> dict[str, Any]:
    """Return what every list of workers shows of a worker."""
    queues = msgspec.json.decode(worker.queues)
    return {"id": worker.id, "queues": queues, "pid": worker.pid, "beat_seconds_ago": round(now - worker.beat_at, 3)}


def _gate(row: Row, now: float, skew: float) -> dict[str, Any]:
    """Show one gate: what it counts, and when it opens automatically."""
    shown: dict[str, Any] = {"key": row.key, "kind": row.kind}
    if row.kind == "limit":
        shown |= {"used": row.used, "limit": row.capacity}
    elif row.kind == "breaker":
        found = gates.circuit(row)
        since = msgspec.to_builtins(moments(skew)(found.since)) if found.since else None
        shown |= {"state": found.state, "failures": row.used, "since": since}
    elif row.kind == "gate":
        closing = msgspec.json.decode(row.detail or "{}", type=Closing)
        shown |= {"closed_seconds": round(now - closing.since, 3), "why": closing.why, "broken": closing.broken}
    elif row.kind == "probe":
        word = gates.disabled(row)
        shown |= {"closed_seconds": round(now - word.since, 3), "why": word.why, "up": word.up}
    elif row.kind == holds.KIND:
        shown |= {"closed_seconds": round(now - holds.read(row).since, 3), "why": holds.ASKED}
    opens_in = None if row.opens_at is None or row.kind == "probe" else round(max(0.0, row.opens_at - now), 3)
    return {**shown, "opens_in": opens_in}


def _with_activity(facts: QueueFacts, activity: PolicyActivity, asked_lately: int) -> QueueFacts:
    new = max(0, activity.letters.get(facts.queue, 0) - asked_lately)  # these are read one after the other
    return msgspec.structs.replace(facts, new_letters=new, denials=activity.refusals.get(facts.queue, 0))


def _governed(facts: StoreFacts, activity: PolicyActivity, rows: Sequence[QueueRow]) -> StoreFacts:
    """Add the policy's issue, and the numbers of new letters and denied replays."""
    asked_lately = {row.name: row.asked_lately for row in rows}
    queues = [_with_activity(each, activity, asked_lately[each.queue]) for each in facts.queues]
    issue = of_store(activity.stored_policy.rules, activity.stored_policy.problem).issue
    return msgspec.structs.replace(facts, queues=tuple(queues), policy_issue=issue)


def _outages(facts: Facts, now: float, skew: float) -> tuple[Outage, ...]:
    return tuple(_outage(row, now, skew) for row in facts.gates if row.kind == "breaker" and gates.blocks(row))


def _outage(row: Row, now: float, skew: float) -> Outage:
    found = gates.circuit(row)
    wait = None if row.opens_at is None or found.state != "open" else max(0.0, row.opens_at - now)
    return Outage(dependency_of(row.key), datetime.fromtimestamp(found.since + skew, UTC), wait)


def _disabled_handlers(facts: Facts, now: float) -> tuple[tuple[str, str, float, bool], ...]:
    """Return the handlers that a process cannot run just now, without those that are up again everywhere."""
    disabled = [(row.key.split(":", 2)[2], row, gates.disabled(row)) for row in facts.gates if row.kind == "probe"]
    return tuple(
        (f"{gates.queue_of(row.key)}/{handler}", found.why, now - found.since, found.up)
        for handler, row, found in disabled
        if not found.up or gates.also_denied(found, now)
    )


def _broken_gates(facts: Facts) -> tuple[tuple[str, str], ...]:
    closed = [row for row in facts.gates if row.kind == "gate"]
    closings = {gates.queue_of(row.key): msgspec.json.decode(row.detail or "{}", type=Closing) for row in closed}
    return tuple((queue, closing.why) for queue, closing in closings.items() if closing.broken)


def _summed_counters(counters: Counters) -> dict[str, int]:
    sums: defaultdict[str, int] = defaultdict(int)
    for (_, kind), number in counters.items():
        sums[kind] += number
    return dict(sums)


def _counts(facts: Facts, counters: Counters, skew: float) -> dict[str, dict[str, Any]]:
    """Return what each queue holds, and what happened there so far."""
    of_queue: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (queue, kind), number in counters.items():
        of_queue[queue][kind] = number
    return {queue.name: _queue_counts(queue, of_queue[queue.name], skew) for queue in facts.queues}


COUNTED = ("due", "running", "scheduled", "parked", "waiting", "letters")
"""The counts that are shown for each queue."""


def _queue_counts(queue: QueueRow, counters: dict[str, int], skew: float) -> dict[str, Any]:
    counts = {what: getattr(queue.counts, what) for what in COUNTED}
    counts["awaiting_consent"] = queue.awaiting_consent
    return {**counts, "paused": bool(queue.paused), "pause": _pause(queue.pause, skew), "counters": counters}


def _pause(pause: Pause | None, skew: float) -> dict[str, Any] | None:
    if pause is None:
        return None
    return {"by": pause.by, "since": msgspec.to_builtins(moments(skew)(pause.at)), "reason": pause.reason}


def _store_facts(facts: Facts, now: float, skew: float, *, disk_low: bool) -> StoreFacts:
    swept, serving = facts.upkeep.get("sweep"), _serving(facts)
    return StoreFacts(
        queues=tuple(_queue_facts(queue, facts, serving[queue.name], now) for queue in facts.queues),
        sweep_age=None if swept is None else now - swept,
        sweep_every=SWEEP_EVERY,
        removed_ago=None if "removed" not in facts.upkeep else now - facts.upkeep["removed"],
        blocking_handlers=blocked_by(facts, now),
        unwritten_ends=lately(facts, UNWRITTEN, now),
        unstarted=lately(facts, UNSTARTED, now),
        disk_low=disk_low,
        clock_jumped=JUMPED in facts.upkeep and now - facts.upkeep[JUMPED] < JUMP_SHOWN,
        conflicting_declarations=conflicts([*facts.workers, *facts.callers]),
        overruled_declarations=overruled(facts),
        fallbacks=tuple(facts.fallbacks),
        outages=_outages(facts, now, skew),
        broken_gates=_broken_gates(facts),
        disabled_handlers=_disabled_handlers(facts, now),
        working_for=max((now - worker.started_at for worker in facts.workers), default=0.0),
        absences=tuple(_absence(worker, now) for worker in facts.missing),
    )


def _absence(worker: Missing, now: float) -> MissingWorker:
    """Judge a worker that did not leave: by the lock of its process, if that can be seen from here."""
    life = "dead" if worker.dead else "unknown" if worker.process is None else lifeline.verdict(worker.process)
    ran = tuple(sorted(msgspec.json.decode(worker.ran, type=dict[str, int]).items()))
    calls = worker.id.startswith(CALLER)
    return MissingWorker(worker.host, worker.pid, now - worker.beat_at, life, ran, worker.holds, calls)


def _queue_facts(queue: QueueRow, facts: Facts, serving: int, now: float) -> QueueFacts:
    oldest = queue.oldest_ready_at
    unknown = tuple(name for of, name in facts.unknown_handlers if of == queue.name)
    return QueueFacts(
        queue=queue.name,
        due=queue.counts.due,
        letters=queue.counts.letters - queue.awaiting_consent,
        held=queue.counts.held - queue.awaiting_consent,
        awaiting_consent=queue.awaiting_consent,
        oldest_due_seconds=None if oldest is None else now - oldest,
        claimed_recently=oldest is not None and (queue.claimed_at or 0.0) > oldest,
        # A queue of requests needs no handler of its own.
        handler_known=bool(queue.handler_known) or not unknown,
        unknown_handlers=unknown,
        live_workers=serving,
        rules=stored_rules(queue.name, queue.rules),
        overdue=facts.overdue.get(queue.name, 0),
        abandoned=facts.abandoned.get(queue.name, 0),
        silent=facts.silent.get(queue.name, 0),
        deferred=dict(facts.deferred).get(queue.name, 0),
        parked=queue.counts.parked,
        long_holds=_long_holds(facts, queue.name, now),
        suspects=next(((number, now - since) for of, number, since in facts.suspects if of == queue.name), None),
        idle_seconds=None if queue.claimed_at is None else now - queue.claimed_at,
        paused=bool(queue.paused),
        uncounted=_uncounted(queue.name, facts),
    )


def _uncounted(queue: str, facts: Facts) -> frozenset[str]:
    """Name the counts that may be too low, so that they are worded without a number."""
    silent = {"silent"} if queue in facts.silent_uncounted else set()
    return frozenset(silent | {"deferred"} if facts.deferred_uncounted else silent)


def _long_holds(facts: Facts, queue: str, now: float) -> tuple[tuple[str, float], ...]:
    """Return the destinations that make a queue's jobs wait for long, and the seconds of the whole wait."""
    rows = [row for row in facts.gates if holds.is_shut(row, now) and gates.queue_of(row.key) == queue]
    found = [(holds.destination_of(row.key), holds.read(row)) for row in rows]
    return tuple((name, hold.until - hold.since) for name, hold in found if hold.until - hold.since > holds.LONG)


def _serving(facts: Facts) -> Counter[str]:
    """Count the live workers of each queue."""
    return Counter(queue for worker in facts.workers for queue in {*msgspec.json.decode(worker.queues)})
