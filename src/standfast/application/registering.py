"""Registers handlers: checks the arguments of `@sf.handler`, and reads the types from the function."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, Protocol, TypedDict, TypeVar, get_args, overload

import msgspec

from standfast.errors import ConfigurationError
from standfast.job import Risk
from standfast.outcome import Cancel, Snooze
from standfast.rules import ReplayMode, WhenLanded
from standfast.spine.registry import Declaration, Handler
from standfast.typed.annotations import annotated, check_readable, settled
from standfast.wings.effects.declared import Effects
from standfast.wings.effects.handler_job import Job
from standfast.wings.limits.probes import Requires

T = TypeVar("T")
R = TypeVar("R")


class HandlerOptions(TypedDict, total=False):
    """The options of `@sf.handler` besides the queue and `input`."""

    name: str | None
    """The handler's name; by default, the queue's."""
    replay: ReplayMode | None
    """What follows an unknown outcome: `"replay"` repeats the job, `"verify_first"` looks at its effects first,
    `"manual"` leaves every repeat to a person. By default, `[store] replay` decides."""
    effects: Effects
    """Its side effects, each with a way to look whether it happened, or a function that returns them for a job."""
    requires: Requires
    """Probes (functions or URLs): while one says no, jobs of this handler wait without spending attempts."""
    consent: bool
    """Whether a session must consent before the handler runs for it."""
    risk: Risk | None
    """How much harm a mistake would do: `"low"`, `"medium"`, `"high"` or `"critical"`; policies match it."""
    timeout: float | None
    """How many seconds an attempt may take; by default, the queue's `timeout`."""
    soft: bool
    """Whether a returned `{"error": …}` or `{"success": False}` counts as a failure."""
    when_landed: WhenLanded | None
    """What to do if a look finds that every effect happened: `"resume"` runs the handler again with `e.done` true,
    `"complete"` completes the job. By default, a handler that uses `job.effect` or `job.once` is resumed."""
    isolate: bool
    """Whether a plain function runs in a child process, which is killed at its timeout or cancel."""


class Register(Protocol):
    """What `@sf.handler(queue)` returns: it turns a function into a handler, typed by the function's annotations."""

    @overload
    def __call__(self, function: Callable[[Job[T]], Awaitable[R | Snooze | Cancel]], /) -> Handler[T, R]: ...
    @overload
    def __call__(self, function: Callable[[Job[T]], R | Snooze | Cancel], /) -> Handler[T, R]: ...


class RegisterInput(Protocol[T]):
    """What `@sf.handler(queue, input=Mail)` returns; if payloads are collected, the job has a list of them."""

    @overload
    def __call__(self, function: Callable[[Job[T]], Awaitable[R | Snooze | Cancel]], /) -> Handler[T, R]: ...
    @overload
    def __call__(self, function: Callable[[Job[list[T]]], Awaitable[R | Snooze | Cancel]], /) -> Handler[T, R]: ...
    @overload
    def __call__(self, function: Callable[[Job[T]], R | Snooze | Cancel], /) -> Handler[T, R]: ...
    @overload
    def __call__(self, function: Callable[[Job[list[T]]], R | Snooze | Cancel], /) -> Handler[T, R]: ...


def types_of(function: Callable[..., Any], handler: str, given: Any, where: FrameType) -> dict[str, Any]:
    """Return the types of a handler's payloads and results; `where` is the frame whose names its annotations use."""
    said = annotated(function, handler, Job, where)
    kind = settled(given, said.input, handler)
    if said.input is not None:
        check_readable(said.input, handler)
    return {"input": kind, "returns": said.result}


def declare(
    queue: str,
    name: str | None,
    *,
    replay: str,
    risk: str | None,
    timeout: float | None,
    consent: bool = False,
    when_landed: str | None = None,
) -> Declaration:
    """Check the arguments of `@sf.handler`."""
    if not isinstance(queue, str):
        raise ConfigurationError(f"@sf.handler takes the queue's name: write @sf.handler('mail'), not {queue!r}")
    if replay not in get_args(ReplayMode):
        raise ConfigurationError.unknown("replay", replay, get_args(ReplayMode))
    if when_landed not in (None, *get_args(WhenLanded)):
        raise ConfigurationError.unknown("when_landed", when_landed, get_args(WhenLanded))
    given = {"queue": queue, "name": name or queue, "replay_mode": replay, "risk": risk, "timeout": timeout}
    given |= {"consent": consent, "when_landed": when_landed}
    try:
        declaration = msgspec.convert(given, Declaration)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"handler {name or queue}: {error}") from error
    if declaration.timeout is not None and not 0 < declaration.timeout < math.inf:
        raise ConfigurationError(f"handler {name or queue}: timeout must be more than 0 seconds, not {timeout!r}")
    return declaration
