"""The checks every payload passes: JSON that every engine and every language reads back unchanged."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn

import msgspec

from standfast.concurrency.guarded import call_guarded
from standfast.errors import PayloadRejected
from standfast.outcome import LARGEST_RESULT

LARGEST = 256 * 1024
"""The most bytes that a payload's canonical text may have."""
DEEPEST = 64
"""How many levels of lists and dicts a payload may have."""
LONGEST_PATH = 200
"""How many characters of a refusal may say where in the payload the problem is."""
NOT_JSON = "which is not JSON; convert it first"
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**64 - 1

_encode = msgspec.json.Encoder(order="deterministic").encode
_PLAIN = frozenset({str, int, float, bool, type(None)})
_NESTING = frozenset({dict, list, tuple})
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def canonical(payload: Any, *, largest: int = LARGEST) -> str:
    """Check a payload and return its canonical text: sorted keys, no white space."""
    plain = payload if type(payload) in JSON_TYPES else _to_plain(payload)
    _check(plain, largest)
    try:
        encoded = _encode(plain)
    except UnicodeEncodeError as error:
        at = _place(plain, _is_no_unicode)
        raise PayloadRejected(f"the payload has text that is not Unicode{at}: {error}; nothing was written") from error
    if len(encoded) > largest:
        raise PayloadRejected(
            f"the payload has {len(encoded)} bytes where {largest} are allowed; "
            "store the data elsewhere and send its address; nothing was written"
        )
    return encoded.decode()


canonical_result = partial(canonical, largest=LARGEST_RESULT)
"""The same for a result of plain JSON values."""


def encode_value(value: Any) -> str:
    """Return the text of a result, a receipt or a step's value, including any typed values inside it.

    Raises PayloadRejected if JSON cannot express the value, or it is too large.
    """
    try:
        return canonical_result(value)
    except PayloadRejected:  # there may be typed values further inside, which is rare
        return canonical_result(call_guarded(partial(_builtins, value), _unwritable))


def _builtins(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=_dumped)


def _unwritable(error: Exception) -> NoReturn:
    raise PayloadRejected(f"the payload cannot be written as JSON: {error}; nothing was written") from error


def _dumped(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if not callable(dump):
        raise TypeError(f"a value is of type {type(value).__name__}, {NOT_JSON}")
    return dump(mode="json", by_alias=True)


def sha256(text: str) -> str:
    """Return the hash that identifies a payload."""
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(handler: str, text: str) -> str:
    """Return what a second job with the same key must match: a hash of handler and payload, and nothing else."""
    return sha256(f"{handler}\0{text}")


JSON_TYPES = frozenset({dict, list, tuple, str, int, float, bool, type(None)})


def _to_plain(payload: Any) -> Any:
    """Convert typed payloads: a msgspec Struct, a dataclass, or a pydantic model."""
    dump = getattr(payload, "model_dump", None)
    try:
        if callable(dump):
            return dump(mode="json", by_alias=True)
        if isinstance(payload, msgspec.Struct) or hasattr(payload, "__dataclass_fields__"):
            return msgspec.to_builtins(payload)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:  # raised by one of its fields
        raise PayloadRejected(f"the payload cannot be written as JSON: {error}; nothing was written") from error
    raise PayloadRejected(f"the payload is of type {type(payload).__name__}, {NOT_JSON}; nothing was written")


def _check(payload: Any, largest: int) -> None:
    """Walk the payload level by level and refuse any value that would not be read back unchanged.

    The walk stops at a level with more values than there may be bytes: lists that share lists can unfold without end.
    """
    level, depth = [payload], 0
    while level:
        below: list[Any] = []
        for value in level:
            if len(below) > largest:
                raise PayloadRejected(f"the payload has more values than {largest} bytes can hold; nothing was written")
            kind = type(value)
            if kind is str:
                if "\0" in value:
                    raise _refusal(payload, value, "the payload contains a NUL character")
            elif kind is dict:
                for key in value:
                    if type(key) is not str or "\0" in key:
                        raise _refusal(payload, value, _wrong_key(key))
                below += value.values()
            elif kind is list or kind is tuple:
                below += value
            elif kind is float and not math.isfinite(value):
                raise _refusal(payload, value, f"the payload contains {value}, which JSON cannot express")
            elif kind is int and not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
                raise _refusal(payload, value, "the payload contains an integer over 64 bits; send it as text")
            elif kind not in _PLAIN:
                raise _refusal(payload, value, f"a value is of type {kind.__name__}, {NOT_JSON}")
        if depth == DEEPEST:
            _check_flat(level)
        level, depth = below, depth + 1


def _check_flat(level: list[Any]) -> None:
    """Refuse lists and dicts below the deepest level allowed, even empty ones."""
    if any(type(value) in _NESTING for value in level):
        raise PayloadRejected(f"the payload is nested deeper than {DEEPEST} levels; nothing was written")


def _wrong_key(key: object) -> str:
    if type(key) is not str:
        return f"a key is of type {type(key).__name__}, {NOT_JSON}"
    return "a key of the payload contains a NUL character"


def _refusal(payload: Any, value: Any, words: str) -> PayloadRejected:
    """Build a refusal that says where in the payload the value is."""
    return PayloadRejected(f"{words}{_place(payload, lambda each: each is value)}; nothing was written")


def _place(payload: Any, wrong: Callable[[Any], bool]) -> str:
    """Say where in a payload the first wrong value is, as `, at payload.a[3]`; nothing for the payload itself.

    Only a refusal pays for this walk, and it goes no deeper than the check that refused.
    """
    level = [("payload", payload)]
    while level:
        below: list[tuple[str, Any]] = []
        for path, value in level:
            if wrong(value):
                return "" if path == "payload" else f", at {path[:LONGEST_PATH]}"
            if type(value) in _NESTING:
                below += _inside(path, value)
        level = below
    return ""


def _inside(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if type(value) is not dict:
        return ((f"{path}[{index}]", each) for index, each in enumerate(value))
    return ((f"{path}.{key}" if str(key).isidentifier() else f"{path}[{key!a}]", each) for key, each in value.items())


def _is_no_unicode(value: Any) -> bool:
    texts = value if type(value) is dict else (value,)
    return any(isinstance(text, str) and _SURROGATE.search(text) is not None for text in texts)


class _Twice(Exception):
    """A key occurs twice."""


def _whole(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Twice
    return found


_decode = json.JSONDecoder(object_pairs_hook=_whole).decode
"""Made once, because making it costs more than reading a small payload."""


def parse(raw: bytes | str, what: str = "the payload") -> Any:
    """Read a payload from outside, and refuse what Python's or msgspec's reader would silently change."""
    try:
        return _decode(raw if isinstance(raw, str) else raw.decode(json.detect_encoding(raw), "surrogatepass"))
    except _Twice as error:
        raise PayloadRejected(f"{what} names a key twice; nothing was written") from error
    except (ValueError, RecursionError) as error:
        raise PayloadRejected(f"{what} is not JSON: {error}; nothing was written") from error
