"""Which wing joins the life of a job at which moment, and in which order.

On PostgreSQL each order is an order of locks: names before rows, queues before keys, jobs before what belongs to them,
the head of the audit chain last of all.
"""

from __future__ import annotations

from standfast.spine.riders import Riders
from standfast.wings.approvals import scripts as approvals
from standfast.wings.audit import scripts as audit
from standfast.wings.calls import scripts as calls
from standfast.wings.consent import scripts as consent
from standfast.wings.effects import scripts as effects
from standfast.wings.jobs import scripts as jobs
from standfast.wings.keys import scripts as keys
from standfast.wings.letters import scripts as letters
from standfast.wings.limits import scripts as limits
from standfast.wings.limits.claiming import claim_regulated
from standfast.wings.policy import scripts as policy
from standfast.wings.queues import depth
from standfast.wings.redrives import scripts as redrives
from standfast.wings.sessions import scripts as sessions
from standfast.wings.threads import intake as thread_intake
from standfast.wings.threads import scripts as threads
from standfast.wings.workflows import scripts as workflows

RIDERS = Riders(
    expects=(thread_intake.lock,),
    accepts=(depth.lock_newcomers, keys.take),
    makes_room=(depth.admitted,),
    takes_in=thread_intake.take_in,
    refuses=(depth.take_back,),
    opens=(limits.open_due,),
    joins=(threads.admit_due,),
    admits=claim_regulated,
    brings=(workflows.with_parents,),
    informs=policy.kept,
    locks=(threads.lock_moved,),
    revises=(jobs.unless_unwanted, threads.make_way),
    guards=(approvals.groundless, policy.groundless, redrives.groundless),
    writes=(
        audit.record_moves,
        effects.write_moves,
        letters.write_moves,
        approvals.write_down,
        redrives.mark_moved,
        consent.write_down,
        sessions.tell,
        keys.release,
    ),
    follows=(threads.release, limits.note_ends, workflows.following),
    settles=(workflows.settle, limits.settle, calls.start),
    closes=(audit.write_link,),
)
