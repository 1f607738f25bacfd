"""How a new job enters its thread: folded into a waiting job, or stored as a job of its own."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from standfast.job import NewJob, Receipt
from standfast.lifecycle import State, Transition
from standfast.spine.apply import apply_decided
from standfast.spine.claim import rules_in_force
from standfast.spine.claim_requests import Full
from standfast.spine.intake import insert
from standfast.spine.riders import Queues
from standfast.store.steps import Round, Script
from standfast.wings.threads import scripts as threads


def lock(round_: Round, jobs: Sequence[NewJob]) -> Script[None]:
    """Lock the threads that new jobs join."""
    yield from threads.lock(round_, threads.gates_of(jobs))


def take_in(round_: Round, job: NewJob, known: Queues) -> Script[Receipt | Full]:
    """Fold a job into a never-claimed job of its thread, or let it join the thread as a job of its own."""
    gate = threads.gate_of(job.queue, job.thread_key or "")
    here = yield "state_of", {"id": job.id}
    if here:  # an earlier commit, which was not acknowledged, has stored it
        owner, state = here[0]
        return Receipt(owner, "accepted" if owner == job.id else "coalesced", state)
    rules = (yield from rules_in_force([job.queue]))[job.queue]
    mode = threads.mode_of(job, rules)
    priority = rules.priority if job.priority is None else job.priority
    job = msgspec.structs.replace(threads.collected(job) if mode == "collect" else job, priority=priority)
    found = yield from threads.members(gate, mode)
    bearer = threads.bearer(found, job.id)
    if bearer is not None:
        return Receipt(bearer.id, "coalesced", bearer.state)
    alike = threads.agreeing(found, mode, gate, rules)
    replaced_by = threads.newer(alike, job, mode, round_)
    if replaced_by is not None:
        yield from threads.fold_under(round_, replaced_by, job)
        return Receipt(replaced_by.id, "coalesced", replaced_by.state)
    into = threads.carrier(found, alike, job)
    if into is not None and (yield from threads.fold(round_, into, job, mode)):
        return Receipt(into.id, "coalesced", State.QUEUED)
    refused: dict[str, Full] = {}
    n = yield from insert(round_, [job], known, refused)
    if refused:
        return refused[job.id]
    yield from _join_thread(round_, n, job, alike, threads.superseded(alike, job, mode, gate))
    return Receipt(job.id, "accepted", State.QUEUED)


def _join_thread(
    round_: Round, n: int, job: NewJob, found: Sequence[threads.Member], superseded: Sequence[Transition]
) -> Script[None]:
    """Make a new row a member of its thread, in place of the jobs it supersedes."""
    first_seen_at, highest = threads.inherited(round_, found, job)
    yield from apply_decided(round_, superseded)
    yield "enter_thread", {"n": n, "thread_key": job.thread_key, "first_seen_at": first_seen_at}
    if highest is not None:
        yield "raise_priority", {"n": n, "priority": highest}
    yield from threads.join(
        n, threads.gate_of(job.queue, job.thread_key or ""), due=round_.due_at(job.delay, job.at) <= round_.now
    )
