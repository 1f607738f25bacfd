"""Handlers: the functions that do a queue's work, with what they declare about themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from standfast.errors import ConfigurationError, PayloadRejected
from standfast.job import Receipt, Risk
from standfast.rules import ReplayMode

Function = Callable[..., Any]
REPLAY_MODES = ("replay", "verify_first", "manual")


class Enqueues(Protocol):
    """What a handler needs to put jobs into its own queue."""

    async def enqueue(self, queue: str, payload: Any = None, **options: Any) -> Receipt:
        """Enqueue one job."""

    async def enqueue_many(self, queue: str, payloads: Sequence[Any], **options: Any) -> list[Receipt]:
        """Enqueue several at once."""


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """What is published about a handler, so that processes without its code decide alike."""

    queue: str
    name: str
    replay_mode: ReplayMode = "replay"
    risk: Risk | None = None
    timeout: float | None = None


class Handler:
    """A registered function. Call it like the function it is, or `.enqueue` work for it."""

    def __init__(
        self, function: Function, declaration: Declaration, door: Enqueues, *, input: Any = None, soft: bool = True
    ) -> None:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigurationError(
                f"handler {declaration.name} is a generator, which would never run: return instead"
            )
        self.function = function
        self.declaration = declaration
        self.input = input
        self.soft = soft
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__ is a handler too
        )
        self._door = door
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", declaration.name)

    @property
    def name(self) -> str:
        """The handler's name."""
        return self.declaration.name

    @property
    def queue(self) -> str:
        """The queue it works for."""
        return self.declaration.queue

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function directly, without the queue."""
        return self.function(*args, **kwargs)

    async def enqueue(self, payload: Any = None, **options: Any) -> Receipt:
        """Enqueue a job for this handler; it is on disk when this returns."""
        return await self._door.enqueue(self.queue, payload, handler=self.name, **options)

    async def enqueue_many(self, payloads: Sequence[Any], **options: Any) -> list[Receipt]:
        """Enqueue several jobs for this handler in one transaction."""
        return await self._door.enqueue_many(self.queue, payloads, handler=self.name, **options)

    def read(self, payload: str) -> Any:
        """Read a payload's text as this handler's input; raise PayloadRejected if it does not fit."""
        if self.input is None:
            return None
        try:
            validate = getattr(self.input, "model_validate_json", None)
            return validate(payload) if validate else msgspec.json.decode(payload, type=self.input)
        except ValueError as error:  # both msgspec's and pydantic's validation errors are
            raise PayloadRejected(f"the payload does not fit {self.name}: {error}; nothing was written") from error


class Registry:
    """The handlers of one process, by queue and name, and the built-in ones that every queue has."""

    def __init__(self) -> None:
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._built_in: dict[str, Handler] = {}

    def add(self, handler: Handler) -> None:
        """Register a handler; a second one of the same name in a queue is a mistake."""
        if handler.name in self._built_in:
            raise ConfigurationError(f"every queue has a handler named {handler.name!r}; give yours another name=")
        key = (handler.queue, handler.name)
        if key in self._handlers:
            raise ConfigurationError(f"queue {handler.queue!r} already has a handler named {handler.name!r}")
        self._handlers[key] = handler

    def add_built_in(self, handler: Handler) -> None:
        """Register a handler for every queue."""
        self._built_in[handler.name] = handler

    @property
    def built_in(self) -> tuple[str, ...]:
        """The names of the handlers that every queue has."""
        return tuple(self._built_in)

    def find(self, queue: str, name: str) -> Handler | None:
        """Give a handler, if this process has it."""
        return self._handlers.get((queue, name)) or self._built_in.get(name)

    def lanes(self, queues: Sequence[str] | None = None) -> dict[str, tuple[str, ...]]:
        """Give the handlers' names of each queue (of all, or of those asked for)."""
        found: dict[str, tuple[str, ...]] = dict.fromkeys(queues or (), self.built_in)
        for queue, name in self._handlers:
            if queues is None or queue in queues:
                found[queue] = (*found.get(queue, self.built_in), name)
        return found

    def declarations(self) -> list[Declaration]:
        """Give what is to be published."""
        return [handler.declaration for handler in self._handlers.values()]


def declare(queue: str, name: str | None, *, replay: str, risk: str | None, timeout: float | None) -> Declaration:
    """Check what `@sf.handler` was given."""
    if replay not in REPLAY_MODES:
        raise ConfigurationError(f"replay={replay!r} is unknown; known are {', '.join(REPLAY_MODES)}")
    if replay == "verify_first":
        raise ConfigurationError("replay='verify_first' needs effects to verify; declare them, or choose 'manual'")
    given = {"queue": queue, "name": name or queue, "replay_mode": replay, "risk": risk, "timeout": timeout}
    try:
        return msgspec.convert(given, Declaration)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"handler {name or queue}: {error}") from error
