"""The rules: what each finds, what is lost there, and what to write instead."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Rank(Enum):
    """How bad it is, worst first."""

    LOST_WORK = "lost-work"
    HIDDEN_FAILURE = "hidden-failure"
    AT_RISK = "at-risk"
    NOTE = "note"

    @property
    def order(self) -> int:
        """The position of the rank; 0 is the worst."""
        return list(Rank).index(self)

    def includes(self, other: Rank) -> bool:
        """Return whether the other rank is as bad as this one, or worse."""
        return other.order <= self.order


MEANINGS = {
    Rank.LOST_WORK: "the work can vanish while everything runs as usual",
    Rank.HIDDEN_FAILURE: "the work can fail and nobody is told",
    Rank.AT_RISK: "the work is lost when the process stops at the wrong moment",
    Rank.NOTE: "worth a look",
}


class Rule(NamedTuple):
    """One kind of mistake that the scan finds."""

    id: str
    rank: Rank
    title: str
    lost: str
    """What is lost, in one sentence; a finding may replace it."""
    instead: str
    """The line of standfast that replaces the code."""


_ENQUEUE = "await handler.enqueue({...})"

DANGLING_TASK = Rule(
    "dangling-task",
    Rank.LOST_WORK,
    "A task that nobody keeps",
    "Nobody keeps this task: it can be garbage-collected before it ends, its error is never raised,"
    " and it dies with the process.",
    _ENQUEUE,
)
LOST_COROUTINE = Rule(
    "coroutine-never-awaited",
    Rank.LOST_WORK,
    "A coroutine that is never awaited",
    "This coroutine is never awaited, so none of its code runs.",
    "await the call, or: " + _ENQUEUE,
)
ASYNC_CALLBACK = Rule(
    "async-callback",
    Rank.LOST_WORK,
    "An async function handed to what calls it without await",
    "An async function is called here without await, so none of its code runs.",
    _ENQUEUE,
)
LOST_GATHER = Rule(
    "gather-never-awaited",
    Rank.LOST_WORK,
    "A gather that is never awaited",
    "This gather is never awaited: its tasks can be garbage-collected, and their errors are never raised.",
    "await handler.enqueue_many([...])",
)
UNREAD_GATHER = Rule(
    "gather-results-unread",
    Rank.HIDDEN_FAILURE,
    "Errors that are collected and never read",
    "The errors of these tasks are collected and thrown away: a call that fails looks like one that worked.",
    "await handler.enqueue_many([...])",
)
DROPPED_FUTURE = Rule(
    "future-dropped",
    Rank.HIDDEN_FAILURE,
    "A future that nobody keeps",
    "Nobody keeps this future: if the call fails, its error is never seen.",
    "sf.enqueue_sync('queue', {...}), with a handler that is a plain function",
)
SWALLOWED_ERROR = Rule(
    "network-error-swallowed",
    Rank.HIDDEN_FAILURE,
    "A network call whose errors are swallowed",
    "If the network call fails, nobody is told and it is not tried again.",
    "await sf.enqueue_http('queue', 'POST', url, body=...)",
)
SUPPRESSED_ERROR = Rule(
    "io-error-suppressed",
    Rank.HIDDEN_FAILURE,
    "suppress(Exception) around input or output",
    "Whatever goes wrong in here is suppressed: nobody is told and it is not tried again.",
    _ENQUEUE,
)
UNCHECKED_STATUS = Rule(
    "status-not-checked",
    Rank.HIDDEN_FAILURE,
    "A response whose status is never checked",
    "The status of the response is never checked: an answer of 500 looks like success.",
    "await sf.enqueue_http('queue', 'POST', url, body=...)",
)
TASK_NEVER_AWAITED = Rule(
    "task-never-awaited",
    Rank.AT_RISK,
    "Tasks that are kept and never awaited",
    "The task is kept, but nothing awaits or cancels it: it stops half-way when the process ends, and its error is"
    " not raised.",
    _ENQUEUE,
)
DAEMON_THREAD = Rule(
    "daemon-thread-io",
    Rank.AT_RISK,
    "A daemon thread that writes or sends",
    "A daemon thread is cut off wherever it is when the process ends, in the middle of a write or a request, too.",
    "sf.enqueue_sync('queue', {...}), with a handler that is a plain function",
)
BACKGROUND_TASK = Rule(
    "background-task",
    Rank.AT_RISK,
    "Work after the response",
    "The client already has its answer when this runs: if it fails or the process stops, the work is gone.",
    "await handler.enqueue({...}) before the response",
)
CELERY_ACKS = Rule(
    "celery-acks-early",
    Rank.AT_RISK,
    "A Celery task without acks_late",
    "The message is acknowledged before the task runs: a worker that is killed loses it.",
    _ENQUEUE,
)
LINE_QUEUE = Rule(
    "jsonl-queue",
    Rank.AT_RISK,
    "A queue made of a file of JSON lines",
    "Lines that are appended while the file is read and rewritten are lost, and so is half a line at a crash.",
    "await sf.enqueue('queue', {...})",
)
BAD_IGNORE = Rule(
    "ignore-without-reason",
    Rank.NOTE,
    "An ignore comment that does not count",
    "An ignore comment needs a rule that exists and a reason: # standfast: ignore[rule] reason",
    "# standfast: ignore[rule] reason",
)
UNUSED_IGNORE = Rule(
    "ignore-unused",
    Rank.NOTE,
    "An ignore comment with nothing to ignore",
    "Nothing on this line needs the ignore comment any more.",
    "remove the comment",
)

RULES = {
    rule.id: rule
    for rule in (
        *(DANGLING_TASK, LOST_COROUTINE, ASYNC_CALLBACK, LOST_GATHER, UNREAD_GATHER, DROPPED_FUTURE),
        *(SWALLOWED_ERROR, SUPPRESSED_ERROR, UNCHECKED_STATUS, TASK_NEVER_AWAITED, DAEMON_THREAD),
        *(BACKGROUND_TASK, CELERY_ACKS, LINE_QUEUE, BAD_IGNORE, UNUSED_IGNORE),
    )
}
