"""What a statement that is written once for both dialects becomes in each.

It is written for PostgreSQL, with casts and row locks. SQLite has no `::` and one writer at a time, so both are
removed there. What remains are arrays and batches, which are passed as JSON:

    n IN :integers(numbers)        n is in an array of numbers; `:texts(ids)` likewise for texts
    :rows(bigint, text)            the rows of a batch and the types of their columns, in place of `VALUES (…), (…)`
"""

from __future__ import annotations

import re

_ARRAY = re.compile(r"IN :(integers|texts)\((\w+)\)")
_NUMBERS = re.compile(r"IN :integers\(numbers\)")
_BATCH = re.compile(r":rows\(([a-z ,]+)\)")
_CAST = re.compile(r"::(?:text|jsonb?|integer|bigint|double precision|boolean)\b")
_LOCK = re.compile(r"\s+FOR (?:UPDATE|NO KEY UPDATE|SHARE)(?: OF \w+)?(?: SKIP LOCKED)?")
_CASTS = {"integers": "::bigint", "texts": ""}


def in_sqlite(sql: str) -> str:
    """Write a statement for SQLite."""
    sql = _ARRAY.sub(r"IN (SELECT value FROM json_each(:\2))", sql)
    sql = _BATCH.sub("VALUES :rows", sql)
    sql = _LOCK.sub("", sql) if "FOR " in sql else sql
    return _CAST.sub("", sql)


def over_span(sql: str) -> str:
    """Write a statement about numbers for SQLite if the numbers have no gaps, so that it walks along the range."""
    return in_sqlite(_NUMBERS.sub("BETWEEN :first AND :last", sql)) if _NUMBERS.search(sql) else ""


def in_postgres(sql: str) -> str:
    """Write a statement for PostgreSQL: the array appears once, so that one index scan serves all of it."""
    return _BATCH.sub(_batch, _ARRAY.sub(_array, sql))


def _array(found: re.Match[str]) -> str:
    return f"= ANY (ARRAY(SELECT jsonb_array_elements_text(:{found[2]}::jsonb){_CASTS[found[1]]}))"


def _batch(found: re.Match[str]) -> str:
    columns = [_column(place, kind) for place, kind in enumerate(found[1].split(", "))]
    return f"SELECT {', '.join(columns)} FROM jsonb_array_elements(:rows::jsonb) AS r"  # noqa: S608 - all of it is ours


def _column(place: int, kind: str) -> str:
    return f"r->>{place}" if kind == "text" else f"(r->>{place})::{kind}"


TRANSLATED = {"sqlite": in_sqlite, "postgres": in_postgres}
