"""The states of a task under Celery's names, mapped from the states of a job."""

from __future__ import annotations

from standfast.lifecycle import State
from standfast.views import JobView

PENDING = "PENDING"
STARTED = "STARTED"
RETRY = "RETRY"
SUCCESS = "SUCCESS"
FAILURE = "FAILURE"
REVOKED = "REVOKED"

READY_STATES = frozenset({SUCCESS, FAILURE, REVOKED})
UNREADY_STATES = frozenset({PENDING, STARTED, RETRY})

_STATES = {
    State.WAITING: PENDING,
    State.RUNNING: STARTED,
    State.COMPLETED: SUCCESS,
    State.CANCELLED: REVOKED,
    State.HELD: FAILURE,
}


def state_of(view: JobView | None) -> str:
    """Return the state of a task; an unknown task is PENDING, as with Celery."""
    if view is None:
        return PENDING
    if view.state == State.QUEUED:
        return RETRY if view.view == "retry_pending" else PENDING
    if view.state == State.DEAD:
        return _state_of_letter(view)
    return _STATES[view.state]


def _state_of_letter(view: JobView) -> str:
    if not view.settled:
        return RETRY
    expired = view.failure is not None and view.failure.reason_code == "expired"
    return REVOKED if expired else FAILURE
