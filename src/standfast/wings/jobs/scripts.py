"""Scripts for what people ask: stop a running job, make a waiting one due, pause a queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from standfast.lifecycle import FINAL, NoticeKind, PossibleDuplicate, State, Transition
from standfast.store.hints import STOPS
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text
from standfast.wings.jobs.rules import unwanted
from standfast.wings.queues import pauses
from standfast.wings.queues.pauses import PauseRequest
from standfast.wings.threads import scripts as threads

OVERDUE = "overdue"
"""The reason code of the history line that says that a running attempt is past its timeout."""


class OverdueAttempt(NamedTuple):
    """An attempt that is past its timeout and cannot be stopped."""

    n: int
    token: int
    attempt: int
    worker: str
    message: str


@writes()
def ask_to_stop(round_: Round, requests: Sequence[tuple[str, str]]) -> Script[list[bool]]:
    """Mark running jobs as no longer wanted, and note who asked; their workers learn of it at the next heartbeat."""
    answers = []
    for job_id, by in requests:
        rows = yield "ask_to_stop", {"id": job_id}
        for n, queue, attempts in rows:
            line = {"attempt": attempts, "at": round_.now, "reason_code": "cancel_asked", "by": by}
            yield "write_history", [(n, text(line))]
            round_.notices[NoticeKind.CANCEL_ASKED, queue].append(job_id)
        answers.append(bool(rows))
    if any(answers):
        round_.note_work(STOPS, 0.0)
    return answers


@writes()
def note_overdue(round_: Round, attempts: Sequence[OverdueAttempt]) -> Script[list[bool]]:
    """Write into the history that running attempts are past their timeout and go on; answer which still run."""
    answers = []
    for each in attempts:
        running = bool((yield "lock_running", {"n": each.n, "token": each.token}))
        if running:
            line = {"attempt": each.attempt, "at": round_.now, "reason_code": OVERDUE, "message": each.message}
            yield "write_history", [(each.n, text({**line, "worker": each.worker}))]
        answers.append(running)
    return answers


def unless_unwanted(transitions: Sequence[Transition]) -> Script[list[Transition]]:
    """Turn the moves of jobs that were asked to stop into cancellations: their workers may not know, or be gone."""
    stopping = [each.n for each in transitions if each.source == State.RUNNING and each.target not in FINAL]
    if not stopping:
        return list(transitions)
    asked_to_stop = {n for (n,) in (yield "unwanted_numbers", {"numbers": text(stopping)})}
    return [unwanted(each) if each.n in asked_to_stop else each for each in transitions]


def _gates_of(ids: Sequence[str]) -> Script[list[str]]:
    gates: list[str] = []
    for job_id in ids:
        gates += [gate for (gate,) in (yield "gate_of_job", {"id": job_id})]
    return gates


@writes(gates=_gates_of)
def hurry(round_: Round, ids: Sequence[str]) -> Script[list[bool]]:
    """Make waiting jobs due now; answer for each whether it was waiting."""
    answers = []
    for job_id in ids:
        yield from threads.lock(round_, (gate for (gate,) in (yield "gate_of_job", {"id": job_id})))
        rows = yield "hurry_job", {"id": job_id, "now": round_.now}
        for n, queue, gate in rows:
            if gate is not None:
                yield from threads.join(n, gate, due=True)
            round_.notices[NoticeKind.HURRIED, queue].append(job_id)
            round_.note_work(queue, 0.0)
        answers.append(bool(rows))
    return answers


@writes()
def count_fallbacks(round_: Round, counts: Sequence[tuple[str, int]]) -> Script[list[None]]:
    """Count calls that went to their fallback while nothing could be stored, and note when the last were reported."""
    yield "add_counters", [(queue, "fallback", number, round_.now) for queue, number in counts]
    for queue, _ in sorted(counts):
        yield "mark_upkeep", {"name": f"fallback {queue}", "now": round_.now}
    return [None] * len(counts)


@writes()
def count_ignored(round_: Round, counts: Sequence[tuple[str, int]]) -> Script[list[None]]:
    """Count deliveries that asked for nothing, by the queue they would have gone to."""
    yield "add_counters", [(queue, "ignored", number, round_.now) for queue, number in counts]
    return [None] * len(counts)


@writes()
def count_hook_failures(round_: Round, queues: Sequence[str]) -> Script[list[None]]:
    """Count calls of `on_failure` that failed or were left out, by the queue of the job that failed."""
    yield "add_counters", [(queue, "hook_failed", number, round_.now) for queue, number in Counter(queues).items()]
    return [None] * len(queues)


def count_duplicates(round_: Round, moved: Sequence[Transition]) -> Script[None]:
    """Count the moves that may make an effect happen twice, as their lines in the history say."""
    queues = Counter(each.queue for each in moved if each.rider(PossibleDuplicate) is not None)
    if queues:
        yield "add_counters", [(queue, "possible_duplicate", number, round_.now) for queue, number in queues.items()]


@writes(separate=True)
def pause(round_: Round, wanted: Sequence[tuple[str, bool] | PauseRequest]) -> Script[list[bool]]:
    """Pause or resume queues; answer for each whether the queue is known."""
    answers = []
    for request in (PauseRequest(*each) for each in wanted):
        queue, paused = request.queue, request.paused
        before = yield "is_paused", {"queue": queue}
        rows = yield "pause_queue", {"queue": queue, "paused": paused}
        if rows:
            yield from pauses.keep(round_, request, changed=bool(before[0][0]) != paused)
            # The notice is in the journal, so that a worker that misses the hint sees it with its next look.
            round_.notices[NoticeKind.PAUSED if paused else NoticeKind.RESUMED, queue].append("")
            round_.note_work(queue, 0.0)
        answers.append(bool(rows))
    return answers
