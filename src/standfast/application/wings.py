"""Which wing takes part in the life of a job at which moment, and in which order scripts and wings take their locks.

On PostgreSQL each order is an order of locks: names before rows, queues before keys, jobs before the rows that belong
to them, and the head of the audit chain last.

A round runs several scripts in one transaction. The threads of all scripts are locked before the first touches a row,
in the order of their names. Then the scripts take their turns: queues, keys and jobs are locked in one order, and a
claim comes last, because it never waits and nothing waits after it. The first script that locks jobs also locks those
of all the others, by number (`steps.lock_jobs`): if each script locked its own jobs, two rounds could deadlock.

Limits, rates, breakers and admission gates are locked by name as threads are, but after everything else: an end gives
its places back in `limits.settle`, which runs once every other script of the round has its locks, before the claim or
at the close. So a transaction that waits for such a gate holds jobs, and one that holds such a gate waits only for
gates with later names: it picks the jobs it lets through among unlocked ones, and a claim or a sweep only tries the
locks and skips what it does not get. A deadlock would need a transaction that holds such a gate and waits for a job, a
thread or a queue, and there is none. The head of the audit chain comes after all of them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from standfast.clock import Clock
from standfast.settings import APPROVAL_TTL
from standfast.spine import bulk, intake, rounds
from standfast.spine.apply import apply
from standfast.spine.claim import claim
from standfast.spine.riders import Riders
from standfast.store.scripts import RoundScripts, Write
from standfast.store.store import Store
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.announcer import tell as tell_alerts
from standfast.wings.approvals import scripts as approvals
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.anchor import Anchor
from standfast.wings.audit.words import NotedIn
from standfast.wings.backup import scripts as backup
from standfast.wings.calls import scripts as calls
from standfast.wings.consent import scripts as consent
from standfast.wings.effects import scripts as effects
from standfast.wings.health import counting
from standfast.wings.imports import scripts as imports
from standfast.wings.jobs import scripts as jobs
from standfast.wings.keys import scripts as keys
from standfast.wings.letters import arrivals, insert_dead
from standfast.wings.letters import scripts as letters
from standfast.wings.limits import outages
from standfast.wings.limits import probe_scripts as probes
from standfast.wings.limits import scripts as limits
from standfast.wings.limits.claiming import claim_regulated
from standfast.wings.notices import scripts as notices
from standfast.wings.policy import scripts as policy
from standfast.wings.progress import scripts as progress
from standfast.wings.queues import depth
from standfast.wings.records import history, reads
from standfast.wings.redrives import scripts as redrives
from standfast.wings.relay import outbox_marks, stuck
from standfast.wings.relay import scripts as relay
from standfast.wings.sessions import scripts as sessions
from standfast.wings.threads import joining as thread_intake
from standfast.wings.threads import scripts as threads
from standfast.wings.tokens import scripts as tokens
from standfast.wings.tokens import session_scripts, settings_scripts
from standfast.wings.tracebacks import scripts as tracebacks
from standfast.wings.workflows import graphs
from standfast.wings.workflows import scripts as workflows
from standfast.worker import lost_workers, upkeep

RIDERS = Riders(
    names=threads.lock_names,
    expects=(thread_intake.lock,),
    accepts=(depth.lock_newcomers, keys.take),
    makes_room=(depth.admitted,),
    takes_in=thread_intake.take_in,
    refuses=(depth.take_back,),
    opens=(limits.open_due,),
    joins=(threads.admit_due,),
    admits=claim_regulated,
    brings=(workflows.with_parents,),
    informs=policy.stored_policy,
    locks=(threads.lock_moved,),
    revises=(jobs.unless_unwanted, threads.make_way),
    guards=(approvals.without_approval, policy.under_old_policy, redrives.of_stopped_redrives),
    writes=(
        audit.record_moves,
        effects.write_moves,
        tracebacks.write_moves,
        progress.write_moves,
        history.shorten,
        letters.write_moves,
        approvals.write_down,
        redrives.mark_moved,
        consent.write_down,
        sessions.tell,
        keys.release,
        jobs.count_duplicates,
    ),
    follows=(threads.release, limits.note_ends, workflows.following),
    settles=(workflows.settle, limits.settle, calls.start),
    closes=(audit.write_link,),
)

ORDER: tuple[Write[Any, Any], ...] = (
    policy.take_turn,
    alerts.take_turn,
    audit.note,
    tokens.create,
    tokens.revoke,
    session_scripts.open_,
    session_scripts.renew,
    session_scripts.close,
    session_scripts.close_all,
    settings_scripts.publish,
    sessions.keep_replies,
    sessions.receive_replies,
    letters.stamp,
    arrivals.bring_in,
    imports.bring_in_letters,
    backup.revoke_tokens,
    backup.hold_restored,
    backup.pause_restored,
    backup.take_back_replays,
    intake.enqueue,
    bulk.enqueue_bulk,
    imports.bring_in_runnable,
    imports.bring_in_finished,
    graphs.start,
    relay.forward,
    relay.bring,
    relay.bury,
    insert_dead.insert_dead,
    alerts.observe,
    alerts.note_sinks,
    alerts.follow,
    tell_alerts,
    calls.call,
    calls.hand_over,
    calls.record_first_attempt,
    effects.write,
    effects.keep_looks,
    jobs.note_overdue,
    effects.keep_looks_at_letters,
    progress.write_reports,
    apply,
    graphs.cancel,
    letters.amend,
    letters.quarantine,
    approvals.ask,
    approvals.answer,
    letters.refuse,
    policy.tidy,
    redrives.plan,
    redrives.start,
    redrives.take,
    redrives.mark,
    redrives.advance,
    redrives.withdraw,
    redrives.carry_out,
    redrives.change_state,
    sessions.read,
    consent.enter,
    consent.give,
    consent.take_back,
    jobs.ask_to_stop,
    jobs.hurry,
    probes.override_disabled,
    outages.try_now,
    jobs.count_fallbacks,
    stuck.mark,
    outbox_marks.mark,
    jobs.count_ignored,
    jobs.count_hook_failures,
    lost_workers.take_suspect_turn,
    lost_workers.release_suspect_turn,
    upkeep.sweep,
    upkeep.prune,
    upkeep.beat,
    upkeep.retire,
    notices.number_journal,
    counting.sum_up,
    claim,
)
"""The turns of scripts in one transaction."""

SCRIPTS = RoundScripts(
    order=ORDER,
    riders=RIDERS,
    run=rounds.run,
    claim=claim,
    contents=reads.contents,
    anchor=Anchor,
)
"""The scripts that every store is given, but for where its audit chain is noted."""


def store_at(
    url: str,
    clock: Clock | None = None,
    *,
    audit_file: str | None = None,
    spool: str | bool | None = None,
    approval_ttl: float = APPROVAL_TTL,
) -> Store:
    """Return the store of a URL, not yet open."""
    return Store(url, _scripts(), clock, audit_file=audit_file, spool=spool, approval_ttl=approval_ttl)


def _scripts() -> RoundScripts:
    """Return the scripts of one store: its links say in which file its anchor notes them."""
    noted_in = NotedIn()
    *others, _ = RIDERS.closes
    riders = msgspec.structs.replace(RIDERS, closes=(*others, partial(audit.write_link, noted_in=noted_in)))
    return replace(SCRIPTS, riders=riders, anchor=partial(Anchor, noted_in=noted_in))
