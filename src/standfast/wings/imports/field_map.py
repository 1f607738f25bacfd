"""Which part of a record becomes which part of a job: the map that `--map FIELD=PATH` changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from standfast.errors import ConfigurationError, PayloadRejected
from standfast.spine.payload import parse
from standfast.wings.imports.words import Unreadable
from standfast.wings.ingest.paths import MISSING, parts, value_in

FIELDS = (
    *("id", "queue", "handler", "payload", "idempotency_key", "thread_key", "priority", "labels", "attempts"),
    *("max_attempts", "first_seen_at", "due_at", "ended_at", "state", "reason_code", "message", "error_kind", "landed"),
    *("session", "requester", "risk", "lease", "queue_reason", "history", "result"),
)
"""The fields that can be mapped. A single label is `labels.NAME`."""
LABEL = "labels."
JSON = "json:"
CONSTANT = "="


class Place(msgspec.Struct, frozen=True):
    """Where a value is found: at a path of the record, there as JSON text, or the same for all records."""

    steps: tuple[str | int, ...] = ()
    constant: str | None = None
    is_json: bool = False

    def read(self, record: Mapping[str, Any]) -> Any:
        """Return the value, or MISSING. A null counts as missing."""
        if self.constant is not None:
            return self.constant
        value = value_in(self.steps, record)
        if value is None or value is MISSING:
            return MISSING
        return _decoded(value) if self.is_json and isinstance(value, str | bytes) else value


def _decoded(text: str | bytes) -> Any:
    try:
        return parse(text, "its payload")
    except (PayloadRejected, UnicodeError) as error:
        raise Unreadable(str(error).removesuffix("; nothing was written")) from error


def place(text: str) -> Place:
    """Read a place: `payload`, `$.a.b[0]`, `json:body` for JSON kept as text, `=mail` for the same value everywhere."""
    if text.startswith(CONSTANT):
        return Place(constant=text[1:])
    is_json = text.startswith(JSON)
    path = text.removeprefix(JSON)
    return Place(tuple(parts(path if path.startswith("$") else f"$.{path}")), is_json=is_json)


FieldMap = Mapping[str, tuple[Place, ...]]
"""For each field, the places where it may be found: the first one that has it counts."""


def field_map(defaults: Mapping[str, Iterable[str]], given: Mapping[str, str] | None = None) -> FieldMap:
    """Build a map. What is given goes before the defaults; an empty path removes a field."""
    places = {name: tuple(map(place, where)) for name, where in defaults.items()}
    for name, where in (given or {}).items():
        if name not in FIELDS and not (name.startswith(LABEL) and len(name) > len(LABEL)):
            raise ConfigurationError.unknown("field of --map", name, (*FIELDS, "labels.NAME"))
        places[name] = (place(where),) if where else ()
    return places


def with_default_queue(defaults: Mapping[str, Sequence[str]], queue: str | None) -> Mapping[str, Sequence[str]]:
    """Return the defaults, with this queue for records that name none."""
    if queue is None:
        return defaults
    named = [each for each in defaults["queue"] if not each.startswith(CONSTANT)]
    return {**defaults, "queue": (*named, f"{CONSTANT}{queue}")}


def values_of(fields: FieldMap, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a record has. Labels that are mapped one by one are combined."""
    found = {name: value for name, where in fields.items() if (value := _first(where, record)) is not MISSING}
    single = {name.removeprefix(LABEL): found.pop(name) for name in [*found] if name.startswith(LABEL)}
    if single:
        found["labels"] = {**found.get("labels", {}), **single}
    return found


def _first(where: tuple[Place, ...], record: Mapping[str, Any]) -> Any:
    return next((value for each in where if (value := each.read(record)) is not MISSING), MISSING)
