"""What a handler's annotations say: the types of its payload and its result. Read once, when it is registered."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from types import FrameType, NoneType, UnionType
from typing import Any, NamedTuple, NoReturn, TypeVar, Union, get_args, get_origin, is_typeddict

import msgspec

from standfast.concurrency.guarded import call_guarded
from standfast.errors import ConfigurationError
from standfast.outcome import Cancel, Snooze


class Annotated(NamedTuple):
    """The types that a function declares, None if none. A result type that cannot be resolved is an `_Unknown`."""

    input: Any = None
    result: Any = None


def annotated(function: Callable[..., Any], handler: str, job: type, where: FrameType) -> Annotated:
    """Read `job: Job[Mail]` and `-> Sent` of a function; local names at its registration (`where`) count, too."""
    plain = _with_annotations(function)
    given = getattr(plain, "__annotations__", {})
    if not given:
        return Annotated()
    first = next(iter(inspect.signature(function).parameters), None)
    known = _Known(job, getattr(plain, "__globals__", {}), where)
    payload, result = given.get(first), given.get("return")
    return Annotated(
        _payload_type(payload, handler, known),
        call_guarded(lambda: _result_type(known.evaluated(result)), lambda error: _Unknown(handler, result, error)),
    )


def _with_annotations(function: Callable[..., Any]) -> Any:
    """Return the object with the annotations: a function, that of a partial, or an object's `__call__`."""
    inner = inspect.unwrap(function)
    while hasattr(inner, "func"):
        inner = inner.func
    return inner if inspect.isroutine(inner) else getattr(type(inner), "__call__", inner)  # noqa: B004


class _Known(NamedTuple):
    """Where the names of an annotation are looked up."""

    job: type
    module: dict[str, Any]
    where: FrameType

    def evaluated(self, annotation: Any) -> Any:
        """Return what an annotation means; a string is evaluated as Python would."""
        while isinstance(annotation, str):
            local = self.where.f_locals if self.where.f_globals is self.module else {}
            names = {self.job.__name__: self.job, **self.module, **local}
            annotation = eval(annotation, names)  # noqa: S307 - it is the application's own code
        return annotation


def _payload_type(annotation: Any, handler: str, known: _Known) -> Any:
    """Return Mail for `Job[Mail]`. An annotation that names no payload need not be resolved."""
    if annotation is None or (isinstance(annotation, str) and "[" not in annotation):
        return None

    def unresolved(error: Exception) -> NoReturn:
        raise ConfigurationError(
            f"handler {handler}: its annotation {annotation} cannot be resolved ({error}); import what it names at "
            "run time, not only under TYPE_CHECKING, or give the type as input="
        ) from error

    found = call_guarded(lambda: known.evaluated(annotation), unresolved)
    origin, arguments = get_origin(found), get_args(found)
    if not (isinstance(origin, type) and issubclass(origin, known.job)) or not arguments:
        return None
    [payload] = arguments
    return None if payload is Any or isinstance(payload, TypeVar) else payload


def _result_type(annotation: Any) -> Any:
    """Return the type of the stored result: neither Snooze nor Cancel is a result."""
    if get_origin(annotation) in (Union, UnionType):
        kept = [each for each in get_args(annotation) if each not in (Snooze, Cancel)]
        return Union[tuple(kept)] if kept else None  # noqa: UP007 - made from a list
    if get_origin(annotation) in (Awaitable, Coroutine):
        return _result_type(get_args(annotation)[-1])
    return None if annotation in (None, NoneType, Any, Snooze, Cancel) else annotation


class _Unknown:
    """A return annotation that cannot be resolved: an error only for a caller that asks for a typed result."""

    def __init__(self, handler: str, annotation: Any, error: Exception) -> None:
        self.error = ConfigurationError(
            f"handler {handler}: its return annotation {annotation} cannot be resolved ({error}); nothing was called: "
            "import what it names at run time, not only under TYPE_CHECKING, or call it by its name for plain JSON"
        )


def settled(given: Any, annotation: Any, handler: str) -> Any:
    """Return the input type of a handler; refuse `input=` that contradicts its annotation.

    `Job[list[Mail]]` with `input=Mail` is a handler of collected payloads.
    """
    if given is None or annotation is None or annotation in (given, list[given]):
        return annotation if given is None else given
    raise ConfigurationError(
        f"handler {handler}: input={_name(given)} contradicts its annotation Job[{_name(annotation)}]; leave input= "
        "out, or make them the same"
    )


def check_readable(kind: Any, handler: str) -> None:
    """Refuse a type that no payload can be read as, now rather than when the first job arrives."""
    known = not isinstance(kind, type) or kind.__module__ == "builtins" or hasattr(kind, "model_validate_json")
    if known or issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind) or is_typeddict(kind):
        return
    info = call_guarded(lambda: _described(kind), lambda _error: None)  # it may refer to names that are defined later
    if isinstance(info, msgspec.inspect.CustomType):
        raise ConfigurationError(
            f"handler {handler}: no payload can be read as {_name(kind)}; make it a msgspec Struct, a dataclass, a "
            "TypedDict or a pydantic model"
        )


def _described(kind: Any) -> Any:
    return msgspec.inspect.type_info(kind)


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)


def read_result(result: Any, kind: Any) -> Any:
    """Read a JSON result as the handler's declared return type; raise if it does not fit."""
    validate = getattr(kind, "model_validate", None)
    return validate(result) if callable(validate) else msgspec.convert(result, kind, dec_hook=_validated)


def check_resolved(kind: Any) -> None:
    """Raise if a return annotation could not be resolved."""
    if isinstance(kind, _Unknown):
        raise kind.error


def _validated(kind: Any, value: Any) -> Any:
    """Read what msgspec does not know: a nested pydantic model."""
    validate = getattr(kind, "model_validate", None)
    if not callable(validate):
        raise TypeError(f"{_name(kind)} cannot be read from JSON")
    return validate(value)
