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

from collections.abc import Iterable, Sequence
from typing import Any

from standfast.spine import apply as applying
from standfast.spine import bulk as together
from standfast.spine import claim as claiming
from standfast.spine import intake
from standfast.spine.riders import Riders
from standfast.store.scripts import Write
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
from standfast.wings.policy import scripts as policies
from standfast.wings.redrives import scripts as redrives
from standfast.wings.relay import scripts as forward
from standfast.wings.sessions import scripts as sessions
from standfast.wings.threads import scripts as threads
from standfast.wings.workflows import graphs
from standfast.worker import losses, upkeep

TURNS: tuple[Write[Any, Any], ...] = (
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
_turns = {script.run: place for place, script in enumerate(TURNS)}


def riders() -> Riders:
    """Give the wings that take part in every round."""
    from standfast.application.wings import RIDERS  # noqa: PLC0415 - the application stands above the store

    return RIDERS


def turn(script: Write[Any, Any]) -> int:
    """Give a script's place in its round; what is not named comes first."""
    return _turns.get(script.run, -1)


def lock(round_: Round, calls: Iterable[tuple[Write[Any, Any], Sequence[Any]]]) -> Script[None]:
    """Lock the threads of everything that a round will run, and note the jobs."""
    gates: list[str] = []
    for script, items in calls:
        if script.newcomers is not None:
            gates += threads.gates_of(script.newcomers(items))
        if script.gates is not None:
            gates += yield from script.gates(items)
        if script.number is not None:
            round_.jobs.update(map(script.number, items))
    yield from threads.lock(round_, gates)
