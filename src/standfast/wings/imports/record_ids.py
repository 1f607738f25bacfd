"""The id of an imported job, made from its record alone: every import of the record makes the same id."""

from __future__ import annotations

import hashlib
from collections import Counter
from uuid import UUID, uuid5

from standfast.wings.imports.words import Record, Source

NAMESPACE = UUID("5d3c1f0e-7a54-4f0b-9a9e-1f6f0c6a7d11")
SEPARATOR = "\x1f"


class Contradictions:
    """The ids that several unequal records of a source share: nobody can tell which of them counts."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._found: set[str] = set()

    def note(self, own: object, record: Record) -> None:
        """Read a record, before anything is stored."""
        if own is not None and self._first.setdefault(str(own), hash(record.raw)) != hash(record.raw):
            self._found.add(str(own))

    def __contains__(self, own: object) -> bool:
        return own is not None and str(own) in self._found


class Identities:
    """Makes the ids of records. It counts equal records without an id of their own: the second one is another job."""

    def __init__(self, source: Source, named: str | None = None) -> None:
        self._kind = source.kind
        self._table = source.table
        self._source = named or source.name
        self._named = named
        self._equal: Counter[bytes] = Counter()

    def job_id(self, record: Record, own: object) -> str:
        """Return the id of a record's job.

        A text id is taken to be unique wherever its file is; a number is unique only in its own source.
        """
        if own is None:
            own = record.own_id
        if isinstance(own, str) and not own.isdigit():
            return self._made(self._named or "", "id", own)
        if own is not None:
            return self._made(self._source, "number", str(own))
        content = hashlib.blake2b((record.content or record.raw).encode(), digest_size=16).digest()
        self._equal[content] += 1
        return self._made(self._source, "content", content.hex(), str(self._equal[content]))

    def _made(self, *parts: str) -> str:
        return str(uuid5(NAMESPACE, SEPARATOR.join((self._kind, self._table, *parts))))
