"""Column lists that are made from the structs they fill, so that no value can land in the wrong field.

They are at the top of a file of statements. Every field of the struct has an expression:

    -- columns: standfast.job.Claim               or `… as Claimed`, if a struct is filled in several ways
    from j: n, token, queue                       columns that are named like the fields
    id: b.id
    ledger: json(CASE WHEN j.token > :since
      THEN … END)                                 an expression may continue on indented lines
    later: handler_risk, parents                  the last fields, which are filled elsewhere

    -- columns: standfast.job.Claim (postgres)    what differs in a dialect
    ledger: …

In a statement, `:columns(Claim)` stands for all of them, in the order of the fields. The struct is imported when the
statements are loaded, so the module that defines it must not import an engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from typing import NamedTuple

OPENING = "\n-- columns: "

_HEADER = re.compile(r"(standfast[\w.]*\.(\w+))(?: as (\w+))?(?: \((sqlite|postgres)\))?")
_PLACE = re.compile(r":columns\((\w+)\)")


class Columns(NamedTuple):
    """The columns of a struct: for each dialect, or for both, the expression of each field."""

    struct: str
    expressions: dict[str, dict[str, str]]
    later: list[str]

    def in_dialect(self, dialect: str) -> str:
        """Write the columns out; refuse a field without an expression, and an expression without a field."""
        own = self.expressions.get("", {}) | self.expressions.get(dialect, {})
        fields = _fields(self.struct)
        filled = fields[: len(fields) - len(self.later)]
        if own.keys() != set(filled) or fields[len(filled) :] != self.later:
            wrong = sorted(own.keys() ^ set(filled)) or self.later
            raise ValueError(f"the columns of {self.struct} are not its fields: look at {', '.join(wrong)}")
        return ", ".join(own[field] for field in filled)


def _fields(struct: str) -> list[str]:
    module, _, name = struct.rpartition(".")
    found = getattr(import_module(module), name)
    return list(getattr(found, "__struct_fields__", None) or found._fields)


def read(found: dict[str, Columns], block: str) -> None:
    """Add a block to those that were read before."""
    header, *lines = block.strip().splitlines()
    named = _HEADER.fullmatch(header)
    if named is None:
        raise ValueError(f"unknown header `-- columns: {header}`")
    struct, label, dialect = named[1], named[3] or named[2], named[4] or ""
    columns = found.setdefault(label, Columns(struct, {}, []))
    if columns.struct != struct or dialect in columns.expressions:
        raise ValueError(f"the columns {label} are written twice")
    own = columns.expressions[dialect] = {}
    for key, text in _entries(lines):
        if key == "later":
            columns.later.extend(_split(text))
        elif key.startswith("from "):
            own.update({field: f"{key.removeprefix('from ')}.{field}" for field in _split(text)})
        else:
            own[key] = text


def _entries(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Yield the text before and after the first colon of each line, including the indented lines that follow it."""
    text = "\n".join(line for line in lines if line.strip() and not line.startswith("--"))
    for entry in re.split(r"\n(?! )", text):
        key, _, value = entry.partition(": ")
        yield key, value


def _split(text: str) -> list[str]:
    return re.split(r",\s+", text)


def expand(sql: str, known: dict[str, Columns], dialect: str) -> str:
    """Insert the columns into a statement."""
    while ":columns(" in sql:
        sql = _PLACE.sub(lambda place: _lookup(known, place[1]).in_dialect(dialect), sql)
    return sql


def _lookup(known: dict[str, Columns], label: str) -> Columns:
    if label not in known:
        raise ValueError(f"no columns have the name {label}")
    return known[label]
