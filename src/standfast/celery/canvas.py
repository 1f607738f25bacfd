"""Calls to be combined: `signature`, `chain`, `group`, `chord`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain as flattened
from typing import TYPE_CHECKING, Any, Self, Unpack

from standfast.celery.call_options import CallOptions
from standfast.celery.eager import evaluate
from standfast.celery.result import AsyncResult, GroupResult
from standfast.celery.unmapped import CALL_OPTIONS, CANVAS, missing_attribute, refuse
from standfast.errors import ConfigurationError

if TYPE_CHECKING:
    from standfast.celery.celery_app import Celery

Result = AsyncResult | GroupResult


class Node:
    """A part of a canvas."""

    app: Celery | None = None

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        """Start it; arguments go to its first tasks."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
    ) -> Any:
        """Start it: all of it is on disk when this returns, or nothing."""
        return self._app().start_canvas(self.with_arguments(list(args), dict(kwargs or {})), options)

    def apply(self, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Run it here and now."""
        return evaluate(self._app(), self.with_arguments(list(args), dict(kwargs or {})))

    def with_arguments(self, args: list[Any], kwargs: dict[str, Any]) -> Node:
        """Return a copy with more arguments for its first tasks."""
        raise NotImplementedError

    def signatures(self) -> Iterable[Signature]:
        """Return every call in it."""
        raise NotImplementedError

    def set(self, **options: Unpack[CallOptions]) -> Self:
        """Set options of every call in it."""
        refuse("option of set", options, CALL_OPTIONS, CallOptions.__annotations__)
        for each in self.signatures():
            each.options.update(options)
        return self

    def __or__(self, other: Node) -> chain:
        if not isinstance(other, Node):
            raise ConfigurationError(f"a canvas goes on with a signature, a group or a chord, not with {other!r}")
        return chain(self, other)

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("signature", name, CANVAS)

    def _app(self) -> Celery:
        from standfast.celery.celery_app import newest_app  # noqa: PLC0415 - an app starts canvases

        return next((each.app for each in self.signatures() if each.app is not None), None) or newest_app()


class Signature(Node):
    """One call of a task, to be made later."""

    def __init__(
        self,
        task: str,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: CallOptions | None = None,
        *,
        immutable: bool = False,
        app: Celery | None = None,
    ) -> None:
        self.task = task
        self.args = tuple(args)
        self.kwargs = dict(kwargs or {})
        self.options: CallOptions = {} if options is None else options.copy()
        self.immutable = immutable
        self.app = app

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the task here and now, without the queue."""
        whole = self.with_arguments(list(args), kwargs)
        return self._app().task_named(self.task)(*whole.args, **whole.kwargs)

    def with_arguments(self, args: list[Any], kwargs: dict[str, Any]) -> Signature:
        """Return a copy with these arguments before its own, unless it is immutable."""
        given = self.args if self.immutable else (*args, *self.args)
        named = self.kwargs if self.immutable else {**self.kwargs, **kwargs}
        return Signature(self.task, given, named, self.options, immutable=self.immutable, app=self.app)

    def clone(self, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Signature:
        """Return a copy, with arguments before its own."""
        return self.with_arguments(list(args), dict(kwargs or {}))

    def signatures(self) -> Iterable[Signature]:
        """Return this call."""
        return [self]

    def __repr__(self) -> str:
        named = [f"{name}={value!r}" for name, value in self.kwargs.items()]
        return f"{self.task}({', '.join([*map(repr, self.args), *named])})"


class chain(Node):  # noqa: N801 - Celery's name
    """Calls one after the other; each gets the result of the one before it."""

    def __init__(self, *nodes: Node | Iterable[Node]) -> None:
        self.nodes = list(flattened.from_iterable(_links(each) for each in _several(nodes)))
        if not self.nodes:
            raise ConfigurationError("a chain has at least one task")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Start it."""
        return self.apply_async(args, kwargs)

    def with_arguments(self, args: list[Any], kwargs: dict[str, Any]) -> chain:
        """Return a copy with more arguments for its first task."""
        return chain(self.nodes[0].with_arguments(args, kwargs), *self.nodes[1:])

    def signatures(self) -> Iterable[Signature]:
        """Return every call in it."""
        return flattened.from_iterable(each.signatures() for each in self.nodes)

    @property
    def tasks(self) -> list[Node]:
        """What it is made of."""
        return self.nodes

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.nodes))


class group(Node):  # noqa: N801 - Celery's name
    """Calls side by side; together they return the list of their results."""

    def __init__(self, *nodes: Node | Iterable[Node]) -> None:
        self.nodes = _several(nodes)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Start it."""
        return self.apply_async(args, kwargs)

    def with_arguments(self, args: list[Any], kwargs: dict[str, Any]) -> group:
        """Return a copy with more arguments for each of its tasks."""
        return group([each.with_arguments(args, kwargs) for each in self.nodes])

    def signatures(self) -> Iterable[Signature]:
        """Return every call in it."""
        return flattened.from_iterable(each.signatures() for each in self.nodes)

    @property
    def tasks(self) -> list[Node]:
        """What it is made of."""
        return self.nodes

    def __repr__(self) -> str:
        return f"group({self.nodes!r})"


class chord(Node):  # noqa: N801 - Celery's name
    """A group, and a call that gets the list of its results."""

    def __init__(self, header: Node | Iterable[Node], body: Node | None = None) -> None:
        self.header = header if isinstance(header, group) else group(header)
        self.body = body

    def __call__(self, body: Node | None = None, **options: Unpack[CallOptions]) -> Any:
        """Start it."""
        return chord(self.header, body or self.body).apply_async(**options)

    def with_arguments(self, args: list[Any], kwargs: dict[str, Any]) -> chord:
        """Return a copy with more arguments for each task of its header."""
        return chord(self.header.with_arguments(args, kwargs), self.body)

    def signatures(self) -> Iterable[Signature]:
        """Return every call in it."""
        return [*self.header.signatures(), *self.ending.signatures()]

    @property
    def ending(self) -> Node:
        """What runs after the header."""
        if self.body is None:
            raise ConfigurationError("a chord needs a body: chord(header)(body)")
        return self.body

    def __repr__(self) -> str:
        return f"chord({self.header!r}, {self.body!r})"


def signature(
    task: Any,
    args: Iterable[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    immutable: bool = False,
    app: Celery | None = None,
    **options: Unpack[CallOptions],
) -> Signature:
    """Return a call of a task, given by name or as an object, to put into a canvas."""
    return Signature(getattr(task, "name", task), args, kwargs, options, immutable=immutable, app=app)


def maybe_signature(given: Any) -> Any:
    """Return a canvas as it is; None stays None."""
    return given


def _links(node: Node) -> list[Node]:
    """Return the links of a chain: an inner chain is merged into it, and a chord is two links."""
    if isinstance(node, chain):
        return node.nodes
    return [node.header, *_links(node.ending)] if isinstance(node, chord) else [node]


def _several(given: tuple[Any, ...]) -> list[Node]:
    """Read signatures as arguments, or as one iterable of them."""
    found = given[0] if len(given) == 1 and not isinstance(given[0], Node) else given
    nodes = list(found)
    for each in nodes:
        if not isinstance(each, Node):
            raise ConfigurationError(f"a canvas is made of signatures, as task.s(1, 2), not of {each!r}")
    return nodes
