"""Scripts for what people ask: stop a running job, hurry a waiting one, pause a queue."""

from __future__ import annotations

from collections.abc import Sequence

from standfast.store.hints import STOPS
from standfast.store.steps import Round, Script


def ask_to_stop(round_: Round, ids: Sequence[str]) -> Script:
    """Mark running jobs as no longer wanted; their workers learn of it with the next heartbeat."""
    answers = []
    for job_id in ids:
        rows = yield "ask_to_stop", {"id": job_id}
        for (queue,) in rows:
            round_.told["cancel_asked", queue].append(job_id)
        answers.append(bool(rows))
    if any(answers):
        round_.work_in(STOPS, 0.0)
    return answers


def hurry(round_: Round, ids: Sequence[str]) -> Script:
    """Make waiting jobs due now; answer for each whether it was waiting."""
    answers = []
    for job_id in ids:
        rows = yield "hurry_job", {"id": job_id, "now": round_.now}
        for (queue,) in rows:
            round_.work_in(queue, 0.0)
        answers.append(bool(rows))
    return answers


def pause(round_: Round, wanted: Sequence[tuple[str, bool]]) -> Script:
    """Pause queues or let them go on; answer for each whether the queue is known."""
    answers = []
    for queue, paused in wanted:
        rows = yield "pause_queue", {"queue": queue, "paused": paused}
        if rows and not paused:
            round_.work_in(queue, 0.0)
        answers.append(bool(rows))
    return answers
