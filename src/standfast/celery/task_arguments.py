"""Arguments and results as JSON. Dates, decimals, UUIDs and bytes have the format of Celery's JSON serializer."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from standfast.errors import PayloadRejected, Permanent

KIND, VALUE = "__type__", "__value__"
PLAIN = (str, int, float, bool, type(None))

_WRITERS: tuple[tuple[type, str, Callable[[Any], Any]], ...] = (
    (datetime, "datetime", datetime.isoformat),  # before date, since a datetime is also a date
    (date, "date", date.isoformat),
    (time, "time", time.isoformat),
    (Decimal, "decimal", str),
    (UUID, "uuid", lambda value: {"hex": value.hex}),
    (bytes, "base64", lambda value: base64.b64encode(value).decode()),
)
_READERS: dict[str, Callable[[Any], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": lambda text: datetime.fromisoformat(text).date(),
    "time": time.fromisoformat,
    "decimal": Decimal,
    "uuid": lambda fields: UUID(**fields),
    "base64": base64.b64decode,
    "bytes": lambda text: text.encode(),
}


def written(value: Any, where: str) -> Any:
    """Return a value as JSON; refuse one that is not JSON, naming its place."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, Mapping):
        return {_key(name, where): written(each, f"{where}[{name!r}]") for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [written(each, f"{where}[{place}]") for place, each in enumerate(value)]
    for kind, name, write in _WRITERS:
        if isinstance(value, kind):
            return {KIND: name, VALUE: write(value)}
    raise PayloadRejected(
        f"{where} is of type {type(value).__name__}, which is not JSON; nothing was written: pass what names it, "
        "such as an id, and load it in the task. standfast never pickles: a queue that runs pickles runs whoever can "
        "write to it"
    )


def _key(name: object, where: str) -> str:
    if isinstance(name, str):
        return name
    raise PayloadRejected(f"{where} has the key {name!r}; nothing was written: keys of JSON are text")


def _read(kind: str, value: Any) -> Any:
    try:
        return _READERS[kind](value)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise Permanent(f"an argument is no {kind}: {error}", reason_code="schema_invalid") from error


def read(value: Any) -> Any:
    """Restore a value from its JSON; a tuple has become a list, as with Celery."""
    if isinstance(value, dict):
        if value.keys() == {KIND, VALUE} and value[KIND] in _READERS:
            return _read(value[KIND], value[VALUE])
        return {name: read(each) for name, each in value.items()}
    return [read(each) for each in value] if isinstance(value, list) else value
