"""The results of tasks, under Celery's names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from standfast.celery import calls, states
from standfast.celery.exceptions import ChordError, TaskFailure, TaskRevokedError, rebuild
from standfast.celery.task_arguments import read
from standfast.celery.task_request import EVERY, RUNNING
from standfast.celery.unmapped import GET, GROUP_RESULT, RESULT, missing_attribute, missing_name, refuse
from standfast.errors import ConfigurationError
from standfast.lifecycle import State
from standfast.views import JobView

if TYPE_CHECKING:
    from standfast.celery.celery_app import Celery

HOW_TO_WAIT = ("interval", "no_ack", "follow_parents")
"""Options of Celery's `get` about how to wait; the store decides that."""
STOPPED = (State.DEAD, State.HELD, State.CANCELLED)


class AsyncResult:
    """A task by its id. Reading changes nothing; every answer comes fresh from the store."""

    def __init__(
        self,
        id: str,  # noqa: A002 - Celery's name
        app: Celery | None = None,
        parent: AsyncResult | GroupResult | None = None,
    ) -> None:
        self.id = id
        self.parent = parent
        self._app = app

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self.id

    @property
    def view(self) -> JobView | None:
        """The whole job, as standfast shows it; None if there is no job with this id."""
        return calls.status(self.app.sf, self.id)

    @property
    def app(self) -> Celery:
        """The app it belongs to."""
        if self._app is None:
            from standfast.celery.celery_app import newest_app  # noqa: PLC0415 - an app gives results

            self._app = newest_app()
        return self._app

    @property
    def state(self) -> str:
        """PENDING, STARTED, RETRY, SUCCESS, FAILURE or REVOKED. A FAILURE can still be replayed, and then continues."""
        return states.state_of(self.view)

    @property
    def status(self) -> str:
        """The same as `state`."""
        return self.state

    @property
    def result(self) -> Any:
        """What the task returned, or the exception it failed with; None before either."""
        view = self.view
        state = states.state_of(view)
        if view is None or state in states.UNREADY_STATES:
            return None
        return _result_of(view) if state == states.SUCCESS else _error_of(view)

    @property
    def info(self) -> Any:
        """The same as `result`."""
        return self.result

    @property
    def traceback(self) -> str | None:
        """The traceback of the failure, if the task failed."""
        view = self.view
        return None if view is None or view.failure is None else view.failure.traceback

    @property
    def date_done(self) -> datetime | None:
        """When the task ended."""
        view = self.view
        return None if view is None else view.finished_at

    def ready(self) -> bool:
        """Return whether it succeeded, failed or was revoked."""
        return self.state in states.READY_STATES

    def successful(self) -> bool:
        """Return whether it succeeded."""
        return self.state == states.SUCCESS

    def failed(self) -> bool:
        """Return whether it failed."""
        return self.state == states.FAILURE

    def get(
        self,
        timeout: float | None = None,
        *,
        propagate: bool = True,
        disable_sync_subtasks: bool = True,
        **celerys: Any,
    ) -> Any:
        """Wait for the task and return its result; raise its exception, or TimeoutError."""
        refuse("option of get", celerys, GET, HOW_TO_WAIT)
        _check_outside_tasks(allowed=not disable_sync_subtasks)
        patience = calls.Patience(f"task {self.id}", timeout)
        while True:
            view = self.view
            if view is not None and states.state_of(view) in states.READY_STATES:
                return _outcome(view, propagate=propagate)
            if view is not None and view.state == State.WAITING and view.workflow is not None:
                _raise_if_stopped(calls.workflow(self.app.sf, view.workflow), view, self.app)
            patience.wait()

    wait = get

    def revoke(self, *, terminate: bool = False, signal: Any = None) -> None:
        """End an unwanted task. A running one is asked to stop; one with a time_limit is then killed."""
        del terminate, signal  # what can be stopped is stopped in any case
        view = self.view
        if view is not None:
            calls.cancel(self.app.sf, view.id)

    def forget(self) -> NoReturn:
        """Refuse: results are deleted with their jobs."""
        raise ConfigurationError(
            "forget() does not map to standfast: results are kept as long as their jobs, see app.conf.result_expires"
        )

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("result", name, RESULT)

    def __repr__(self) -> str:
        return f"<AsyncResult: {self.id}>"

    def __str__(self) -> str:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncResult) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


class EagerResult(AsyncResult):
    """The result of a task that ran here and now."""

    def __init__(self, id: str, value: Any, state: str) -> None:  # noqa: A002 - Celery's name
        super().__init__(id)
        self._value = value
        self._state = state

    @property
    def state(self) -> str:
        """How it ended."""
        return self._state

    @property
    def result(self) -> Any:
        """What it returned, or raised."""
        return self._value

    def get(
        self,
        timeout: float | None = None,
        *,
        propagate: bool = True,
        disable_sync_subtasks: bool = True,
        **celerys: Any,
    ) -> Any:
        """Return the task's result, or raise its exception."""
        del timeout, disable_sync_subtasks, celerys
        if propagate and isinstance(self._value, Exception) and self._state == states.FAILURE:
            raise self._value
        return self._value

    wait = get


class GroupResult:
    """The results of a group, in its order."""

    def __init__(self, results: Sequence[Any]) -> None:
        self.results = list(results)

    def get(
        self,
        timeout: float | None = None,
        *,
        propagate: bool = True,
        disable_sync_subtasks: bool = True,
        **celerys: Any,
    ) -> Any:
        """Wait for all tasks; return their results in the group's order."""
        options = {"propagate": propagate, "disable_sync_subtasks": disable_sync_subtasks, **celerys}
        left = calls.TimeLeft(timeout)
        return [each.get(left.seconds, **options) for each in self.results]

    join = get

    def ready(self) -> bool:
        """Return whether all have ended."""
        return all(each.ready() for each in self.results)

    def successful(self) -> bool:
        """Return whether all succeeded."""
        return all(each.successful() for each in self.results)

    def failed(self) -> bool:
        """Return whether any failed."""
        return any(each.failed() for each in self.results)

    def waiting(self) -> bool:
        """Return whether any has not ended."""
        return not self.ready()

    def completed_count(self) -> int:
        """Count the tasks that succeeded."""
        return sum(each.successful() for each in self.results)

    def revoke(self, *, terminate: bool = False, signal: Any = None) -> None:
        """End the tasks that have not ended."""
        for each in self.results:
            each.revoke(terminate=terminate, signal=signal)

    @staticmethod
    def restore(*_given: Any, **_options: Any) -> NoReturn:
        """Refuse: a group has no id of its own."""
        raise missing_attribute("GroupResult", "restore", GROUP_RESULT)

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("GroupResult", name, GROUP_RESULT)

    @property
    def children(self) -> list[Any]:
        """The results, as Celery names them."""
        return self.results

    def __iter__(self) -> Iterator[Any]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, place: int) -> Any:
        return self.results[place]


def _outcome(view: JobView, *, propagate: bool) -> Any:
    if states.state_of(view) == states.SUCCESS:
        return _result_of(view)
    error = _error_of(view)
    if propagate:
        raise error
    return error


def _result_of(view: JobView) -> Any:
    if view.warning == "result_not_stored":
        raise TaskFailure(
            f"task {view.id} completed, but what it returned is not JSON and was not kept: return what names it"
        )
    return read(view.result)


def _error_of(view: JobView) -> Exception:
    if states.state_of(view) == states.REVOKED:
        return TaskRevokedError(f"task {view.id} was revoked or expired")
    if view.state == State.HELD:
        return TaskFailure(f"task {view.id} is held for a person: {view.reason}")
    return rebuild(view.failure)


def _raise_if_stopped(flow: dict[str, Any], view: JobView, app: Celery) -> None:
    """Raise if a task that this one waits for has failed: the wait would last until somebody replays that task."""
    steps: dict[str, dict[str, Any]] = flow["steps"]
    [own] = [name for name, step in steps.items() if step["job_id"] == view.id]
    stopped = next((step for step in _ancestors(own, steps) if step["state"] in STOPPED), None)
    if stopped is None:
        return
    failed = calls.status(app.sf, stopped["job_id"])
    error = rebuild(None if failed is None else failed.failure)
    takes = view.payload.get("takes") if isinstance(view.payload, dict) else None
    if isinstance(takes, str) and takes != EVERY:
        raise error
    raise ChordError(f"task {stopped['job_id']} of this chord failed: {error!r}") from error


def _ancestors(name: str, steps: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    seen, open_ = {name}, [name]
    while open_:
        for each in steps[open_.pop()]["after"]:
            if each not in seen:
                seen.add(each)
                open_.append(each)
                yield steps[each]


def _check_outside_tasks(*, allowed: bool) -> None:
    if RUNNING.get() is not None and not allowed:
        raise RuntimeError(
            "a task that waits for another keeps its slot, and the other may never get one: write a chain or a chord"
        )


def __getattr__(name: str) -> Any:
    raise missing_name("celery.result", name)
