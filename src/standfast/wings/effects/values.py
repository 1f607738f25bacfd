"""The arguments of a step as a hash, and its result as the type that its function names.

A result is kept as JSON and read back by its function's return annotation: nothing in the store names code to import.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec

from standfast.concurrency.guarded import call_guarded

LONGEST_HASH = 16
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def digest(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the hash of a call's arguments, including those of a partial; it is the same in every process.

    Arguments without a value to write down (a client, a connection) count by their type.
    """
    while isinstance(function, functools.partial):
        args, kwargs = (*function.args, *args), {**function.keywords, **kwargs}
        function = function.func
    written = [_written(value) for value in (*args, *(part for pair in sorted(kwargs.items()) for part in pair))]
    return hashlib.sha256(b"\0".join([str(len(args)).encode(), *written])).hexdigest()[:LONGEST_HASH]


def _written(value: Any) -> bytes:
    return call_guarded(lambda: _encode(value), lambda _error: _described(value).encode(errors="replace"))


def _plain(value: Any) -> Any:
    """Convert a value that msgspec does not know: a pydantic model to its contents, any other to its description."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else _described(value)


def _described(value: Any) -> str:
    """Describe a value without the parts that differ from process to process."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if getattr(kind, "__repr__", None) is object.__repr__:
        return name
    return call_guarded(lambda: f"{name}: {_ADDRESS.sub('', repr(value))}", lambda _error: name)


_encode = msgspec.json.Encoder(order="deterministic", enc_hook=_plain).encode


def as_returned(text: str, function: Callable[..., Any]) -> Any:
    """Read a kept value as the type that a function says it returns; as plain JSON if it names no readable type."""
    wanted = _returns(function)
    plain = functools.partial(msgspec.json.decode, text)
    if wanted is Any:
        return plain()
    return call_guarded(lambda: msgspec.json.decode(text, type=wanted, dec_hook=_validated), lambda _error: plain())


def _returns(function: Callable[..., Any]) -> Any:
    """Return a function's return annotation; Any if it has none, or one that cannot be resolved."""
    while isinstance(function, functools.partial):
        function = function.func
    plain = function if inspect.isroutine(function) else getattr(type(function), "__call__", function)  # noqa: B004
    return call_guarded(lambda: get_type_hints(plain).get("return", Any), lambda _error: Any)


def _validated(wanted: Any, value: Any) -> Any:
    """Read a type that msgspec does not know: a pydantic model."""
    validate = getattr(wanted, "model_validate", None)
    if not callable(validate):
        raise TypeError(f"{wanted!r} cannot be read from JSON")
    return validate(value)
