"""`app.control`: of Celery's remote control, what ends tasks; for the rest, what standfast has instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from standfast.celery.unmapped import CONTROL, missing_attribute


class Revocable(Protocol):
    """What became of a task, as far as ending it goes."""

    def revoke(self, *, terminate: bool = False, signal: Any = None) -> None:
        """End the task."""


class HasResults(Protocol):
    """An app, as far as its results go."""

    def AsyncResult(self, task_id: str) -> Revocable:  # noqa: N802 - Celery's name
        """Give what became of a task."""


class Control:
    """Ends tasks by their ids."""

    def __init__(self, app: HasResults) -> None:
        self._app = app

    def revoke(self, task_id: str | Iterable[str], *, terminate: bool = False, signal: Any = None) -> None:
        """End tasks that are not wanted, as `AsyncResult(id).revoke()` does."""
        for each in [task_id] if isinstance(task_id, str) else task_id:
            self._app.AsyncResult(each).revoke(terminate=terminate, signal=signal)

    def terminate(self, task_id: str | Iterable[str], *, signal: Any = None) -> None:
        """Do the same."""
        self.revoke(task_id, terminate=True, signal=signal)

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("app.control", name, CONTROL)
