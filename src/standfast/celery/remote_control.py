"""`app.control`: ends tasks; for the rest of Celery's remote control, it names the replacement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from standfast.celery.unmapped import CONTROL, missing_attribute


class Revocable(Protocol):
    """A task's result that can end the task."""

    def revoke(self, *, terminate: bool = False, signal: Any = None) -> None:
        """End the task."""


class HasResults(Protocol):
    """An app that returns results by id."""

    def AsyncResult(self, task_id: str) -> Revocable:  # noqa: N802 - Celery's name
        """Return the result of a task by its id."""


class Control:
    """Ends tasks by their ids."""

    def __init__(self, app: HasResults) -> None:
        self._app = app

    def revoke(self, task_id: str | Iterable[str], *, terminate: bool = False, signal: Any = None) -> None:
        """End unwanted tasks, as `AsyncResult(id).revoke()` does."""
        for each in [task_id] if isinstance(task_id, str) else task_id:
            self._app.AsyncResult(each).revoke(terminate=terminate, signal=signal)

    def terminate(self, task_id: str | Iterable[str], *, signal: Any = None) -> None:
        """Do the same as `revoke`."""
        self.revoke(task_id, terminate=True, signal=signal)

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("app.control", name, CONTROL)
