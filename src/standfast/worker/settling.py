"""Decides what becomes of a job: the rules of the spine, with the wings' additions in order.

Worker, sweeper, calls and operators all use this.
"""

from __future__ import annotations

from standfast.job import Claim
from standfast.lifecycle import Transition
from standfast.outcome import LookFailed, NotStarted, Recovered, Unconsented, Undetermined, Unfinished
from standfast.rules import QueueRules
from standfast.spine import settle as spine
from standfast.spine.settle import Settle
from standfast.wings.consent.rules import unconsented
from standfast.wings.effects import outcomes as effects
from standfast.wings.isolation.rules import not_started
from standfast.wings.limits.breaker import report_dependency
from standfast.wings.limits.postponement import postponed
from standfast.wings.policy.triage import PRESENT, PolicyNow, judge_attempt
from standfast.wings.sessions.rules import with_origin

settle: Settle[PolicyNow] = Settle(
    decides={
        Recovered: effects.recovered,
        Undetermined: effects.undetermined,
        LookFailed: effects.look_again,
        NotStarted: not_started,
        Unfinished: effects.unfinished,
        Unconsented: unconsented,
    },
    adds=(effects.reopen, postponed, report_dependency, effects.count_progress, with_origin),
    judges=judge_attempt,
)


def too_old(
    claim: Claim, rules: QueueRules, now: float, roll: float = 0.0, present: PolicyNow = PRESENT
) -> Transition | None:
    """End a job that was claimed too late as dead, without entering its handler; its attempt is given back."""
    late = spine.too_old(claim, rules, now)
    return None if late is None else judge_attempt(claim, with_origin(claim, None, rules, late), roll, present)
