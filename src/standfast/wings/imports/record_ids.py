"""The id of an imported job, made from its record alone: whoever imports the record again makes the same id."""

from __future__ import annotations

import hashlib
from collections import Counter
from uuid import UUID, uuid5

from standfast.wings.imports.words import Record, Source

NAMESPACE = UUID("5d3c1f0e-7a54-4f0b-9a9e-1f6f0c6a7d11")
SEPARATOR = "\x1f"


class Contradictions:
    """The ids that several records of a source have which are not equal: which of them counts, nobody can tell."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._found: set[str] = set()

    def note(self, own: object, record: Record) -> None:
        """Look at a record, before anything is stored."""
        if own is not None and self._first.setdefault(str(own), hash(record.raw)) != hash(record.raw):
            self._found.add(str(own))

    def __contains__(self, own: object) -> bool:
        return own is not None and str(own) in self._found


class Identities:
    """Gives records their ids. It counts equal records that have no id of their own: the second one is another job."""

    def __init__(self, source: Source, named: str | None = None) -> None:
        self._kind = source.kind
        self._table = source.table
        self._source = named or source.name
        self._named = named
        self._equal: Counter[bytes] = Counter()

    def job_id(self, record: Record, own: object) -> str:
        """Give the id of a record's job.

        An id that is text is taken for unique wherever its file lies; a number is unique in its own source only.
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
