"""Handlers: the functions that do a queue's work, and what each declares."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, NoReturn, Unpack, cast, overload

import msgspec

from standfast.concurrency.guarded import call_guarded
from standfast.errors import ConfigurationError, PayloadRejected
from standfast.job import Receipt, Risk
from standfast.rules import ReplayMode, WhenLanded
from standfast.typed.door import Calls, Door, R, T
from standfast.typed.job_options import EnqueueManyOptions, EnqueueOptions, RunOptions, SubmitOptions
from standfast.typed.reply import Reply
from standfast.typed.sync import SyncHandler

Function = Callable[..., Any]

_split = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """What is published about a handler, so that processes without its code make the same decisions."""

    queue: str
    name: str
    replay_mode: ReplayMode = "replay"
    risk: Risk | None = None
    timeout: float | None = None
    consent: bool = False
    """Whether a session must have consented before the handler is entered for it."""
    when_landed: WhenLanded | None = None
    """What to do when a look finds every effect. None resumes a handler that records its effects."""


class Handler(Generic[T, R]):
    """A registered function of payloads T with results R. Call it like the function, or `.enqueue` work for it."""

    def __init__(
        self,
        function: Function,
        declaration: Declaration,
        door: Door,
        *,
        input: Any = None,
        returns: Any = None,
        soft: bool = True,
        effects: Any = (),
        requires: Sequence[Any] = (),
        identity: Callable[[Any], str] | None = None,
    ) -> None:
        called = getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__ is a handler too
        if any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in (function, called)):
            raise ConfigurationError(
                f"handler {declaration.name} is a generator, which would never run: return instead"
            )
        _check_takes_a_job(function, declaration.name)
        self.function = function
        self.declaration = declaration
        self.input = input
        self.returns = returns
        """The type of its results, if it declares one."""
        self.soft = soft
        self.effects = effects
        """Its effects, or a function that returns them for a job."""
        self.requires = requires
        """The probes that must say yes before the handler is entered."""
        self.guarded = self.has_effects or declaration.consent
        """Whether hooks are called before the handler is entered."""
        self._identity = identity
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
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

    @property
    def has_effects(self) -> bool:
        """Whether it declares effects, or a function that returns them."""
        return callable(self.effects) or bool(self.effects)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function directly, without the queue."""
        return self.function(*args, **kwargs)

    @property
    def sync(self) -> SyncHandler[T, R]:
        """The same methods as blocking calls, for code without `await`: `send.sync.enqueue(mail)`."""
        return SyncHandler(self)

    @overload
    async def enqueue(self: Handler[None, R], payload: None = None, **options: Unpack[EnqueueOptions]) -> Receipt: ...
    @overload
    async def enqueue(self, payload: T, **options: Unpack[EnqueueOptions]) -> Receipt: ...
    async def enqueue(self, payload: Any = None, **options: Unpack[EnqueueOptions]) -> Receipt:
        """Enqueue a job for this handler; it is on disk when this returns. `sf.enqueue` says what the options mean."""
        return await self._door.enqueue(self.queue, payload, handler=self.name, **options)

    async def enqueue_many(self, payloads: Iterable[T], **options: Unpack[EnqueueManyOptions]) -> list[Receipt]:
        """Enqueue several jobs for this handler in one transaction; `keys=` gives each its own key."""
        return await self._door.enqueue_many(self.queue, payloads, handler=self.name, **options)

    @overload
    async def run(self: Handler[None, R], payload: None = None, **options: Unpack[RunOptions]) -> Reply[R]: ...
    @overload
    async def run(self, payload: T, **options: Unpack[RunOptions]) -> Reply[R]: ...
    async def run(self, payload: Any = None, **options: Unpack[RunOptions]) -> Reply[R]:
        """Call this handler here and now. The call is recorded first; the Reply says how it ended."""
        return await cast("Calls", self._door).run(self, payload, **options)

    @overload
    async def submit(self: Handler[None, R], payload: None = None, **options: Unpack[SubmitOptions]) -> Reply[R]: ...
    @overload
    async def submit(self, payload: T, **options: Unpack[SubmitOptions]) -> Reply[R]: ...
    async def submit(self, payload: Any = None, **options: Unpack[SubmitOptions]) -> Reply[R]:
        """Let a worker call this handler, once. The Reply comes at once and says that the call is not done yet."""
        return await cast("Calls", self._door).submit(self, payload, **options)

    def read(self, payload: str, *, collected: bool = False) -> Any:
        """Read a payload's text as this handler's input; raise PayloadRejected if it does not fit.

        A collection is read as a list of inputs, and fits only if each of them does.
        """
        if self.input is None:
            return None
        read = partial(self._read_each if collected else self._read, payload)
        return call_guarded(read, self._misfit)

    def identity_of(self, given: Any, payload: str) -> str:
        """Return what makes two payloads the same work: their text, unless the handler computes it from its input."""
        return payload if self._identity is None or given is None else self._identity(given)

    def _misfit(self, error: Exception) -> NoReturn:
        """Refuse a payload that could not be read, whatever the reader raised; the handler is not entered."""
        raise PayloadRejected.by(self.name, error) from error

    def _read_each(self, payload: str) -> list[Any]:
        return [self._read(bytes(each)) for each in _split(payload)]

    def _read(self, payload: str | bytes) -> Any:
        validate = getattr(self.input, "model_validate_json", None)
        return validate(payload) if validate else msgspec.json.decode(payload, type=self.input)


class Registry:
    """The handlers of one process, by queue and name, and the built-in ones that every queue has."""

    def __init__(self) -> None:
        self.own: dict[tuple[str, str], Handler] = {}
        """The handlers that the application registered, by queue and name."""
        self.of_every_queue: dict[str, Handler] = {}
        """The built-in handlers, by name."""
        self.with_requirements: dict[str, tuple[Handler, ...]] = {}
        """The handlers that have probes, by queue."""
        self.strict_modes: dict[str, dict[str, ReplayMode]] = {}
        """The replay modes other than `replay`, by queue and handler."""
        self.gates: dict[str, Function] = {}
        """The functions that are asked before any job of a queue starts, by queue."""
        self.failure_hooks: list[Function] = []
        """The functions that are called after an attempt failed."""

    def add(self, handler: Handler) -> None:
        """Register a handler; refuse a second one with the same name in a queue."""
        if handler.name in self.of_every_queue:
            raise ConfigurationError(f"every queue has a handler named {handler.name!r}; give yours another name=")
        key = (handler.queue, handler.name)
        if key in self.own:
            raise ConfigurationError(f"queue {handler.queue!r} already has a handler named {handler.name!r}")
        self.own[key] = handler
        if handler.declaration.replay_mode != "replay":
            self.strict_modes.setdefault(handler.queue, {})[handler.name] = handler.declaration.replay_mode
        if handler.requires:
            self.with_requirements[handler.queue] = (*self.requiring(handler.queue), handler)

    def requiring(self, queue: str) -> Sequence[Handler]:
        """Return the handlers of a queue that have probes."""
        return self.with_requirements.get(queue, ())

    def add_gate(self, queue: str, gate: Any) -> None:
        """Remember a function that is asked before any job of a queue starts; a gate that is a URL is in the rules."""
        if callable(gate):
            self.gates[queue] = gate

    def take_over(self, others: Registry) -> None:
        """Register the handlers of another registry here too."""
        self.own |= others.own
        self.strict_modes |= others.strict_modes
        self.with_requirements |= others.with_requirements
        self.gates |= others.gates
        self.failure_hooks += others.failure_hooks

    def add_built_in(self, handler: Handler) -> None:
        """Register a handler for every queue."""
        self.of_every_queue[handler.name] = handler

    @property
    def built_in(self) -> tuple[str, ...]:
        """The names of the handlers that every queue has."""
        return tuple(self.of_every_queue)

    def find(self, queue: str, name: str) -> Handler | None:
        """Return a handler, if this process has it."""
        return self.own.get((queue, name)) or self.of_every_queue.get(name)

    def queues_of(self, name: str) -> list[str]:
        """Return the queues that have a registered handler of this name; built-in handlers do not count."""
        return sorted(queue for queue, each in list(self.own) if each == name)

    def lanes(self, queues: Sequence[str] | None = None) -> dict[str, tuple[str, ...]]:
        """Return the names of the handlers of each queue (of all queues, or of the given ones)."""
        found: dict[str, tuple[str, ...]] = dict.fromkeys(queues or (), self.built_in)
        for queue, name in list(self.own):
            if queues is None or queue in queues:
                found[queue] = (*found.get(queue, self.built_in), name)
        return found

    def unserved(self, queues: Sequence[str]) -> list[str]:
        """Return the queues without a registered handler: only jobs for built-in handlers run there."""
        known = {queue for queue, _ in list(self.own)}
        return [queue for queue in queues if queue not in known]

    def declarations(self) -> list[Declaration]:
        """Return the declarations to publish."""
        handlers = list(self.own.values())  # copied first: heartbeats call this from a thread of their own
        return [handler.declaration for handler in handlers]


def _check_takes_a_job(function: Function, name: str) -> None:
    """Refuse a function that cannot be called with a job, now rather than when the first job arrives."""
    if not callable(function):
        raise ConfigurationError(f"handler {name} must be a function, not {function!r}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function in C that does not say
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise ConfigurationError(
            f"handler {name} is called with one argument, the job, and {signature} does not accept that ({error}); "
            "write def handler(job)"
        ) from error
