"""How the whole store is doing: facts from the store, judged by `wings.health.rules`."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations, starmap
from typing import Any

import msgspec

from standfast.errors import ConfigurationError, StoreUnavailable, WrongAddress
from standfast.profiles import stored_rules
from standfast.rules import QueueRules
from standfast.spine.registry import Declaration
from standfast.store.store import Store
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.phrasing import shown
from standfast.wings.alerts.words import Condition, Key
from standfast.wings.health import scripts as health_scripts
from standfast.wings.health.rules import (
    DENIALS_WITHIN,
    GROWTH_WITHIN,
    LATE_SWEEPS,
    MissingWorker,
    QueueFacts,
    StoreFacts,
    conditions,
    issues,
    status,
)
from standfast.wings.health.scripts import CALLER, Facts, Missing, QueueRow, Tallies, WorkerRow
from standfast.wings.health.strain import issues as issues_of_strain
from standfast.wings.limits import holds
from standfast.wings.limits import words as gates
from standfast.wings.limits.words import Closing, Row
from standfast.wings.policy import scripts as policies
from standfast.wings.policy.policy_in_force import of_store
from standfast.wings.policy.scripts import MOST_COUNTED, PolicyActivity
from standfast.wings.records.view import moments
from standfast.wings.redrives import redrive_reads
from standfast.wings.redrives.rules import issues_of_halts
from standfast.wings.relay.verbs import SpoolStatus, server_message
from standfast.wings.schedules import scripts as schedules
from standfast.wings.schedules.rules import OVERDUE_AFTER, LateSchedule
from standfast.wings.schedules.rules import issues as issues_of_schedules
from standfast.wings.workflows import graphs
from standfast.wings.workflows.rules import issues as issues_of_workflows
from standfast.worker import lifeline
from standfast.worker.upkeep import BLOCKED, JUMPED, UNWRITTEN

SILENT_AFTER = 30.0
"""A worker whose last heartbeat is older than this, three of the longest beats, does not count as live."""
MARKS_SHOWN = 60.0
SWEEP_EVERY = 10.0
JUMP_SHOWN = 86400.0
STUCK_SHOWN = 10


async def observe(store: Store) -> tuple[Facts, StoreFacts]:
    """Read what health and alerts are judged by: as the store has it, and as the rules take it."""
    facts = await store.read(
        health_scripts.facts(
            store.now(), store.boot(), silent_after=SILENT_AFTER, unmoved_for=LATE_SWEEPS * SWEEP_EVERY
        )
    )
    now = store.now()
    activity = await store.read(
        policies.policy_activity(now, letters_within=GROWTH_WITHIN, refusals_within=DENIALS_WITHIN)
    )
    judged = _governed(_store_facts(facts, now, disk_low=store.location.disk_low()), activity)
    failing = tuple((name, now - since, why) for name, since, why in await store.read(alerts.sinks()))
    return facts, msgspec.structs.replace(judged, failing_sinks=failing)


async def wrong_now(store: Store) -> dict[Key, Condition]:
    """Give everything that is wrong just now and is an alert."""
    _, facts = await observe(store)
    return conditions(facts)


async def health(store: Store, spooled: SpoolStatus | None = None) -> dict[str, Any]:
    """Judge the store by what it holds; any process gives the same answer, but for what waits on its own host."""
    facts, judged = await observe(store)
    found = issues(judged)
    strain = await store.read(health_scripts.strain(store.now()))
    found += issues_of_strain(
        strain.snapshots, dead=strain.dead, live=strain.live, promotion=strain.promotion, wal=store.location.wal()
    )
    found += issues_of_halts(await store.read(redrive_reads.halted()))
    found += issues_of_workflows(await store.read(graphs.stuck(STUCK_SHOWN + 1)), STUCK_SHOWN)
    late = [LateSchedule(*each) for each in await store.read(schedules.late(*store.times(), OVERDUE_AFTER))]
    found += issues_of_schedules(late, workers=bool(facts.workers))
    if store.trouble:
        found.append(f"store: {store.trouble}")
    anchor_error = store.anchor.problem
    if anchor_error:
        found.append(f"audit: the chain's head cannot be noted in {anchor_error}; a cut end would not show there")
    if spooled is not None and spooled.issue:
        found.append(spooled.issue)
    return {
        "status": status(found),
        "at_least": _bounded_totals(facts),
        "total_pending": sum(queue.due for queue in facts.queues),
        "total_dead_letter": sum(queue.letters for queue in facts.queues),
        "issues": found,
        "alerts": shown(await store.read(alerts.standing()), store.skew(), conditions(judged)),
        "spool": spooled and spooled.summary(),
    }


def store_away(error: StoreUnavailable | WrongAddress, spooled: SpoolStatus | None) -> dict[str, Any]:
    """Tell of a store that cannot be asked: what is pending on this host is the least there is."""
    issue = None if spooled is None else spooled.issue
    return {
        "status": "degraded",
        "at_least": ["total_pending", "total_dead_letter"],
        "total_pending": 0 if spooled is None else spooled.depth,
        "total_dead_letter": 0,
        "issues": [f"store: {server_message(error)}", *([issue] if issue else [])],
        "alerts": [],
        "spool": None if spooled is None else spooled.summary(),
    }


async def stats(store: Store, spooled: SpoolStatus | None = None) -> dict[str, Any]:
    """Count what is there, and what happened so far."""
    facts, tallies = await store.read(health_scripts.survey(store.now(), store.boot(), silent_after=SILENT_AFTER))
    now, skew = store.now(), store.skew()
    oldest = min((queue.oldest_ready_at for queue in facts.queues if queue.oldest_ready_at is not None), default=None)
    return {
        "at_least": _bounded_totals(facts, tallies),
        "total_pending": sum(queue.due for queue in facts.queues),
        "total_processing": sum(number for (_, what), number in tallies.doing.items() if what == "running"),
        "total_dead_letter": sum(queue.letters for queue in facts.queues),
        "queue_depths": {queue.name: queue.due for queue in facts.queues},
        "oldest_pending_seconds": None if oldest is None else now - oldest,
        "next_retry_at": msgspec.to_builtins(moments(skew)(facts.next_due_at)),
        "worker_running": bool(facts.workers),
        "workers": [_worker(worker, now) for worker in facts.workers],
        "counters": _counters(tallies),
        "queues": _counts(facts, tallies),
        "gates": [_gate(row, now) for row in facts.gates],
        "spool": spooled and spooled.display(),
    }


async def queues(store: Store) -> dict[str, dict[str, Any]]:
    """Give every queue with its rules in force, what it holds, and how many live workers serve it."""
    facts, tallies = await store.read(health_scripts.survey(store.now(), store.boot(), silent_after=SILENT_AFTER))
    counts, serving = _counts(facts, tallies), _serving(facts)
    return {
        queue.name: {
            **counts[queue.name],
            "workers": serving[queue.name],
            "rules": stored_rules(queue.name, queue.rules),
        }
        for queue in sorted(facts.queues)
    }


TOTALS = {"due": "total_pending", "running": "total_processing", "letters": "total_dead_letter"}


def _bounded_totals(facts: Facts, tallies: Tallies | None = None) -> list[str]:
    """Name the totals whose counting stopped at its bound: there may be more."""
    bounded = {name for queue in facts.queues for name in queue.at_least} | (tallies.at_least if tallies else set())
    return [total for name, total in TOTALS.items() if name in bounded]


def _worker(worker: WorkerRow, now: float) -> dict[str, Any]:
    queues = msgspec.json.decode(worker.queues)
    return {"id": worker.id, "queues": queues, "pid": worker.pid, "beat_seconds_ago": round(now - worker.beat_at, 3)}


def _gate(row: Row, now: float) -> dict[str, Any]:
    """Show one gate: what it counts, and when it opens by itself."""
    shown: dict[str, Any] = {"key": row.key, "kind": row.kind}
    if row.kind == "limit":
        shown |= {"used": row.used, "limit": row.capacity}
    elif row.kind == "breaker":
        shown |= {"state": gates.circuit(row).state, "failures": row.used}
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


def _with_activity(facts: QueueFacts, activity: PolicyActivity) -> QueueFacts:
    new, denials = activity.letters.get(facts.queue, 0), activity.refusals.get(facts.queue, 0)
    at_least = (*facts.at_least, "new_letters") if new >= MOST_COUNTED else facts.at_least
    return msgspec.structs.replace(facts, new_letters=new, denials=denials, at_least=at_least)


def _governed(facts: StoreFacts, activity: PolicyActivity) -> StoreFacts:
    """Add what is known of the policy, and of letters that grow or may not be replayed."""
    queues = [_with_activity(each, activity) for each in facts.queues]
    issue = of_store(activity.stored_policy.rules, activity.stored_policy.problem).issue
    return msgspec.structs.replace(facts, queues=tuple(queues), policy_issue=issue)


def _open_breakers(facts: Facts, now: float) -> tuple[tuple[str, int, float], ...]:
    found = [row for row in facts.gates if row.kind == "breaker" and gates.blocks(row)]
    return tuple((row.key.removeprefix("breaker:"), row.used, now - gates.circuit(row).since) for row in found)


def _disabled_handlers(facts: Facts, now: float) -> tuple[tuple[str, str, float, bool], ...]:
    """Give the handlers that a process cannot run just now. One that is up again everywhere is not among them."""
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


def _counters(tallies: Tallies) -> dict[str, int]:
    counters: defaultdict[str, int] = defaultdict(int)
    for (_, kind), number in tallies.told.items():
        counters[kind] += number
    return dict(counters)


def _counts(facts: Facts, tallies: Tallies) -> dict[str, dict[str, Any]]:
    """Give what each queue holds, and what happened there so far."""
    counters: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (queue, kind), number in tallies.told.items():
        counters[queue][kind] = number
    return {queue.name: _queue_counts(queue, tallies, counters[queue.name]) for queue in facts.queues}


def _queue_counts(queue: QueueRow, tallies: Tallies, counters: dict[str, int]) -> dict[str, Any]:
    doing = {what: tallies.doing.get((queue.name, what), 0) for what in ("running", "scheduled", "parked", "waiting")}
    at_least = sorted({*queue.at_least, *tallies.at_least})
    counts = {"due": queue.due, **doing, "letters": queue.letters, "at_least": at_least}
    return {**counts, "paused": bool(queue.paused), "counters": counters}


def _store_facts(facts: Facts, now: float, *, disk_low: bool) -> StoreFacts:
    swept, serving = facts.upkeep.get("sweep"), _serving(facts)
    return StoreFacts(
        queues=tuple(_queue_facts(queue, facts, serving[queue.name], now) for queue in facts.queues),
        sweep_age=None if swept is None else now - swept,
        sweep_every=SWEEP_EVERY,
        removed_ago=None if "removed" not in facts.upkeep else now - facts.upkeep["removed"],
        blocking_handlers=blocked_by(facts, now),
        unwritten_ends=_lately(facts, UNWRITTEN, now),
        disk_low=disk_low,
        clock_jumped=JUMPED in facts.upkeep and now - facts.upkeep[JUMPED] < JUMP_SHOWN,
        conflicting_declarations=_conflicts([*facts.workers, *facts.callers]),
        overruled_declarations=_overruled(facts),
        fallbacks=tuple(facts.fallbacks),
        open_breakers=_open_breakers(facts, now),
        broken_gates=_broken_gates(facts),
        disabled_handlers=_disabled_handlers(facts, now),
        working_for=max((now - worker.started_at for worker in facts.workers), default=0.0),
        absences=tuple(_absence(worker, now) for worker in facts.missing),
    )


def _absence(worker: Missing, now: float) -> MissingWorker:
    """Judge a worker that has not left: by the lock of its process, where that can be seen from here."""
    life = "dead" if worker.dead else "unknown" if worker.process is None else lifeline.verdict(worker.process)
    ran = tuple(sorted(msgspec.json.decode(worker.ran, type=dict[str, int]).items()))
    calls = worker.id.startswith(CALLER)
    return MissingWorker(worker.host, worker.pid, now - worker.beat_at, life, ran, worker.holds, calls)


def _queue_facts(queue: QueueRow, facts: Facts, serving: int, now: float) -> QueueFacts:
    oldest = queue.oldest_ready_at
    unknown = tuple(name for of, name in facts.unknown_handlers if of == queue.name)
    return QueueFacts(
        queue=queue.name,
        due=queue.due,
        letters=queue.letters,
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
        long_holds=_long_holds(facts, queue.name, now),
        suspects=next(((number, now - since) for of, number, since in facts.suspects if of == queue.name), None),
        idle_seconds=None if queue.claimed_at is None else now - queue.claimed_at,
        paused=bool(queue.paused),
        at_least=(*queue.at_least, "silent") if queue.name in facts.silent_more else queue.at_least,
    )


def _long_holds(facts: Facts, queue: str, now: float) -> tuple[tuple[str, float], ...]:
    """Give the destinations that have a queue's jobs wait for long, and for how many seconds in all."""
    rows = [row for row in facts.gates if holds.is_shut(row, now) and gates.queue_of(row.key) == queue]
    found = [(holds.destination_of(row.key), holds.read(row)) for row in rows]
    return tuple((name, hold.until - hold.since) for name, hold in found if hold.until - hold.since > holds.LONG)


def _serving(facts: Facts) -> Counter[str]:
    """Count the live workers of each queue."""
    return Counter(queue for worker in facts.workers for queue in {*msgspec.json.decode(worker.queues)})


def blocked_by(facts: Facts, now: float) -> tuple[str, ...]:
    """Name the handlers, queue/handler, that blocked their worker's event loop a moment ago, or still do."""
    return _lately(facts, BLOCKED, now)


def _lately(facts: Facts, mark: str, now: float) -> tuple[str, ...]:
    """Give what workers marked a moment ago."""
    named = [(name.removeprefix(mark), at) for name, at in facts.upkeep.items() if name.startswith(mark)]
    return tuple(sorted(name for name, at in named if now - at < MARKS_SHOWN))


def _conflicts(workers: list[WorkerRow]) -> tuple[str, ...]:
    """Name the queues and handlers of which two live workers declared different things."""
    declared: defaultdict[str, set[str]] = defaultdict(set)
    for worker in workers:
        for queue, rules in msgspec.json.decode(worker.declares).items():
            declared[queue].add(rules)
    return tuple(sorted(queue for queue, said in declared.items() if any(starmap(_differ, combinations(said, 2)))))


def _overruled(facts: Facts) -> tuple[str, ...]:
    """Name the queues and handlers of which a live worker declared something else than what is in force."""
    found = {
        name
        for worker in (*facts.workers, *facts.callers)
        for name, rules in msgspec.json.decode(worker.declares).items()
        if name in facts.in_force and _differ(rules, facts.in_force[name])
    }
    return tuple(sorted(found))


def _differ(one: str, other: str) -> bool:
    """Tell whether two declarations disagree in a rule that both name: a settings file names only some."""
    first, second = _meaning(one), _meaning(other)
    if first is None or second is None:
        return one != other
    return any(first[rule] != second[rule] for rule in first.keys() & second.keys())


def _meaning(declared: str) -> dict[str, Any] | None:
    """Read each rule that was declared, for it may be written in many ways; None if only another version can."""
    try:
        given = msgspec.json.decode(declared, type=dict[str, Any])
        read = msgspec.convert(given, Declaration if "replay_mode" in given else QueueRules)
    except (msgspec.DecodeError, ConfigurationError):
        return None
    return {rule: getattr(read, rule) for rule in given if hasattr(read, rule)}
