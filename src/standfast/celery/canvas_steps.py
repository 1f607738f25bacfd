"""A canvas as a workflow: each call is a step, and a step that takes results waits for the steps that make them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from standfast.celery import calls
from standfast.celery.canvas import Node, Signature, chain, chord, group
from standfast.celery.result import AsyncResult, GroupResult
from standfast.celery.task_arguments import written
from standfast.celery.task_request import EVERY, Takes, step_name
from standfast.errors import ConfigurationError

if TYPE_CHECKING:
    from standfast.celery.celery_app import Celery

FOR_ALL = ("queue", "priority", "expires", "serializer")
FOR_THE_FIRST = ("countdown", "eta")
"""Options that make sense only for a call that waits for no other."""


class Plan:
    """The steps of a canvas, in order."""

    def __init__(self, app: Celery, options: dict[str, Any]) -> None:
        unfit = [name for name in options if name not in (*FOR_ALL, *FOR_THE_FIRST)]
        if unfit:
            raise ConfigurationError(
                f"a canvas takes no {unfit[0]}; it takes {', '.join((*FOR_ALL, *FOR_THE_FIRST))}, and each of its "
                "signatures has its own options"
            )
        self._app = app
        self._options = options
        self.steps: dict[str, tuple[Signature, Takes | None]] = {}
        self.before: dict[str, list[str]] = {}

    def add(self, node: Node, takes: Takes | None = None) -> Takes:
        """Add the steps that a node needs; return those that make its result."""
        match node:
            case Signature():
                return self._step(node, takes)
            case chain(nodes=nodes):
                for each in nodes:
                    takes = self.add(each, takes)
                return takes or []
            case group(nodes=nodes):
                return [self.add(each, takes) for each in nodes]
            case chord(header=header):
                return self.add(node.ending, self.add(header, takes))
            case _:
                raise ConfigurationError(f"a canvas is made of signatures, not of {node!r}")

    def _step(self, call: Signature, takes: Takes | None) -> str:
        name = step_name(len(self.steps) + 1, call.task)
        if call.options.get("task_id") is not None:
            raise ConfigurationError(
                f"{call!r} has task_id= and is part of a canvas, where that does not map: each of its jobs has an id "
                "of its own. Keep those that the result has: result.id, result.parent.id"
            )
        unfit = [option for option in FOR_THE_FIRST if call.options.get(option) is not None]
        if unfit and takes is not None:
            raise ConfigurationError(
                f"{call!r} has {unfit[0]}= and is part of a canvas, where that does not map: a step starts when those "
                "before it are done. Have the task before it call apply_async(countdown=...)"
            )
        self.steps[name] = (call, takes)
        self.before[name] = [] if takes is None else list(leaves(takes))
        return name

    def start(self, name: str) -> dict[str, str]:
        """Store all steps as one workflow; return the job's id of each step."""
        flow = self._app.sf.workflow(name)
        feeding = {each for before in self.before.values() for each in before}
        for step, (call, takes) in self.steps.items():
            first = {} if takes is not None else self._options
            given = {**{key: self._options[key] for key in FOR_ALL if key in self._options}, **first, **call.options}
            queue, options = self._app.place(call.task, given)
            task = options.pop("handler")
            payload = self._payload(call, takes, feeds=step in feeding)
            flow.step(step, task, payload, after=self.before[step], queue=queue, **options)
        return calls.start(self._app.sf, flow)

    def _payload(self, call: Signature, takes: Takes | None, *, feeds: bool) -> dict[str, Any]:
        payload: dict[str, Any] = {
            "args": written(call.args, f"an argument of {call.task}"),
            "kwargs": written(call.kwargs, f"an argument of {call.task}"),
        }
        if takes is not None and not call.immutable:
            flat = len(takes) > 1 and all(isinstance(each, str) for each in takes) and not isinstance(takes, str)
            payload["takes"] = EVERY if flat else takes
        return {**payload, "feeds": True} if feeds else payload

    def result(self, made_by: Takes, ids: dict[str, str]) -> AsyncResult | GroupResult:
        """Return the result that these steps make, with the results before it as its parents."""
        if isinstance(made_by, str):
            takes = self.steps[made_by][1]
            parent = None if takes is None else self.result(takes, ids)
            return AsyncResult(ids[made_by], app=self._app, parent=parent)
        return GroupResult([self.result(each, ids) for each in made_by])


def start(app: Celery, node: Node, options: dict[str, Any]) -> AsyncResult | GroupResult:
    """Store a canvas; return its result."""
    plan = Plan(app, options)
    made_by = plan.add(node)
    ids = plan.start(type(node).__name__) if plan.steps else {}
    return plan.result(made_by, ids)


def leaves(takes: Takes) -> Iterator[str]:
    """Yield every step named in it."""
    if isinstance(takes, str):
        yield takes
        return
    for each in takes:
        yield from leaves(each)
