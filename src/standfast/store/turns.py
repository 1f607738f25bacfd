"""What the transactions of many processes agree on, so that none waits for one that waits for it.

A round runs several scripts in one transaction. The threads of all of them are locked before the first touches a row,
in the order of their names. Then the scripts take their turns: queues, keys and jobs are locked in one order, and a
claim comes last, because it waits for nobody and nothing waits after it. The first script that locks jobs locks those
of all others too, by number (`steps.lock_jobs`): two that lock one after the other could meet two that do it in turn.

Limits, rates, breakers and admission gates are locked by name as threads are, but after everything else: an end gives
its places back in `gates.settle`, which runs when every other script of the round has its locks, before the claim or at
the close. So whoever waits for such a gate holds jobs, and whoever holds one waits for nothing but such gates of later
names: it picks the jobs it lets through among those that nobody has locked, and a claim or a sweep only tries the locks
and leaves alone what it does not get. A circle would need somebody who holds such a gate and waits for a job, a thread
or a queue, and there is none. The head of the audit chain comes after all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from standfast.job import NewJob
from standfast.lifecycle import Transition
from standfast.spine import apply as applying
from standfast.spine import bulk as together
from standfast.spine import claim as claiming
from standfast.spine import intake
from standfast.spine.riders import Riders
from standfast.store.requests import ScriptFunction
from standfast.store.steps import Round, Script
from standfast.wings.alerts import conditions
from standfast.wings.alerts import scripts as alerts
from standfast.wings.approvals import scripts as approvals
from standfast.wings.calls import scripts as calls
from standfast.wings.consent import scripts as consents
from standfast.wings.effects import scripts as ledger
from standfast.wings.jobs import scripts as operations
from standfast.wings.letters import births
from standfast.wings.letters import scripts as letters
from standfast.wings.limits import probe_scripts as probes
from standfast.wings.notices import scripts as carrying
from standfast.wings.policy import scripts as policies
from standfast.wings.queues import ages
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.redrives import scripts as redrives
from standfast.wings.relay import scripts as forward
from standfast.wings.schedules import scripts as schedules
from standfast.wings.sessions import scripts as sessions
from standfast.wings.threads import scripts as threads
from standfast.wings.workflows import graphs
from standfast.worker import losses, upkeep

Gates = Script[list[str]]

TURNS: tuple[ScriptFunction, ...] = (
    intake.enqueue,
    together.enqueue_together,
    graphs.start,
    forward.forward,
    births.bury,
    conditions.take_turn,
    conditions.observe,
    conditions.tell,
    conditions.hurt,
    conditions.note_sinks,
    alerts.follow,
    alerts.tell,
    calls.call,
    calls.hand_over,
    ledger.write,
    ledger.keep_looks,
    applying.apply,
    graphs.cancel,
    letters.amend,
    letters.quarantine,
    approvals.ask,
    approvals.say,
    policies.refuse,
    policies.take_turn,
    policies.tidy,
    redrives.plan,
    redrives.start,
    redrives.take,
    redrives.mark,
    redrives.advance,
    redrives.withdraw,
    redrives.carry_out,
    redrives.steer,
    sessions.read,
    consents.enter,
    consents.give,
    consents.take_back,
    operations.ask_to_stop,
    operations.hurry,
    probes.insist,
    operations.count_fallbacks,
    operations.count_ignored,
    losses.stand_apart,
    losses.stand_back,
    upkeep.sweep,
    upkeep.prune,
    upkeep.beat,
    upkeep.retire,
    upkeep.number_journal,
    claiming.claim,
)
_turns = {script: place for place, script in enumerate(TURNS)}

SCHEDULES: tuple[ScriptFunction, ...] = (schedules.put, schedules.pause, schedules.remove, schedules.tick)
APART: frozenset[ScriptFunction] = frozenset(
    {
        queue_scripts.publish,
        policies.publish,
        ages.restamp,
        operations.pause,
        letters.purge,
        alerts.begin,
        carrying.carry,
        *SCHEDULES,
    }
)
"""Scripts that lock what all others use; each gets a transaction of its own."""


def riders() -> Riders:
    """Give the wings that take part in every round."""
    from standfast.application.wings import RIDERS  # noqa: PLC0415 - the application stands above the store

    return RIDERS


def turn(script: ScriptFunction) -> int:
    """Give a script's place in its round; what is not named comes first."""
    return _turns.get(script, -1)


def lock(round_: Round, calls: Iterable[tuple[ScriptFunction, Sequence[Any]]]) -> Script[None]:
    """Lock the threads of everything that a round will run, and note the jobs."""
    gates: list[str] = []
    for script, items in calls:
        if script in _GATES:
            gates += yield from _GATES[script](items)
        if script in _JOBS:
            round_.jobs |= {_JOBS[script](item) for item in items}
    yield from threads.lock(round_, gates)


def _of_jobs(jobs: Iterable[NewJob]) -> Gates:
    yield from ()
    return threads.gates_of(jobs)


def _of_batches(batches: Sequence[Sequence[NewJob]]) -> Gates:
    return (yield from _of_jobs(job for jobs in batches for job in jobs))


def _of_tellings(tellings: Sequence[conditions.Told]) -> Gates:
    return (yield from _of_jobs(job for each in tellings for job in each.jobs))


def _of_brought(brought: Sequence[forward.Forward]) -> Gates:
    return (yield from _of_jobs(each.job for each in brought))


def _of_calls(called: Sequence[calls.Call]) -> Gates:
    return (yield from _of_jobs(each.job for each in called))


def _of_ticks(tickings: Sequence[schedules.Ticking]) -> Gates:
    return (yield from _of_jobs(job for each in tickings for _, job in each.runs))


def _of_moves(transitions: Sequence[Transition]) -> Gates:
    yield from ()
    return [each.gate for each in transitions if each.gate is not None]


def _of_ids(ids: Sequence[str]) -> Gates:
    gates: list[str] = []
    for job_id in ids:
        gates += [gate for (gate,) in (yield "gate_of_job", {"id": job_id})]
    return gates


_JOBS: dict[ScriptFunction, Callable[[Any], int]] = {
    ledger.write: lambda note: note.n,
    ledger.keep_looks: lambda looked: looked.n,
    applying.apply: lambda transition: transition.n,
    letters.amend: lambda amendment: amendment.touch.letter.n,
    letters.quarantine: lambda quarantine: quarantine.touch.letter.n,
    approvals.ask: lambda ask: ask.n,
    policies.refuse: lambda refusal: refusal.n,
}
"""Scripts that lock jobs they know by number, and how each item of theirs names its job."""

_GATES: dict[ScriptFunction, Callable[[Any], Gates]] = {
    intake.enqueue: _of_jobs,
    together.enqueue_together: _of_batches,
    forward.forward: _of_brought,
    calls.call: _of_calls,
    conditions.tell: _of_tellings,
    schedules.tick: _of_ticks,
    applying.apply: _of_moves,
    operations.hurry: _of_ids,
}
