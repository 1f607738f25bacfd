"""Tasks and canvases run here and now: by `apply()`, and by every call while `task_always_eager` is set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from standfast.celery import states
from standfast.celery.autoretry import retry_for
from standfast.celery.eager_job import eager_job
from standfast.celery.exceptions import Ignore, Retry
from standfast.celery.result import EagerResult, GroupResult
from standfast.celery.task_hooks import after_the_last, before_a_repeat
from standfast.celery.task_request import Request, running
from standfast.concurrency.guarded import call_guarded

if TYPE_CHECKING:
    from standfast.celery.canvas import Node
    from standfast.celery.celery_app import Celery
    from standfast.celery.task import Task


def run_eagerly(task: Task, args: list[Any], kwargs: dict[str, Any]) -> EagerResult:
    """Run a task with its retries, without waiting before any of them."""
    from standfast.celery.task_run import call_hooked, cause_of  # noqa: PLC0415 - it knows how tasks end, and they know this

    request = _first_request(task, str(uuid4()), args, kwargs)

    def end(error: Exception) -> EagerResult | int:
        if isinstance(error, Ignore):
            return EagerResult(request.id or "", None, states.REVOKED)
        found = retry_for(task, request, error)
        if isinstance(found, Retry):
            before_a_repeat(task, request, cause_of(found))
            return request.retries + 1
        after_the_last(task, request, found)
        return EagerResult(request.id or "", found, states.FAILURE)

    def call() -> EagerResult | int:
        with running(request):
            return EagerResult(request.id or "", call_hooked(task, request), states.SUCCESS)

    while True:
        outcome = call_guarded(call, end)
        if isinstance(outcome, EagerResult):
            return outcome
        job = eager_job(task, request.id or "", request.job)
        request = msgspec.structs.replace(request, retries=outcome, job=job)


def _first_request(task: Task, task_id: str, args: list[Any], kwargs: dict[str, Any]) -> Request:
    job = eager_job(task, task_id)
    return Request(task=task.name, id=task_id, args=args, kwargs=kwargs, called_directly=False, is_eager=True, job=job)


def evaluate(app: Celery, node: Node, *given: Any) -> Any:
    """Run a canvas; `given` is the result of the part before it, if there is one."""
    from standfast.celery.canvas import Signature, chain, chord, group  # noqa: PLC0415 - a canvas can run eagerly

    match node:
        case Signature():
            whole = node.with_arguments(list(given), {})
            return app.task_named(node.task).apply(whole.args, whole.kwargs)
        case chain(nodes=nodes):
            result = evaluate(app, nodes[0], *given)
            for each in nodes[1:]:
                result = evaluate(app, each, result.get())
            return result
        case group(nodes=nodes):
            return GroupResult([evaluate(app, each, *given) for each in nodes])
        case chord(header=header):
            return evaluate(app, node.ending, evaluate(app, header, *given).get())
