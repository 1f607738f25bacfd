"""The receiver's books: one line per request, appended before the request is answered."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

Did = Literal["effect", "recognised", "nothing"]


class Entry(msgspec.Struct, frozen=True):
    """One request: its key, what the receiver did about it, and how it answered."""

    key: str
    did: Did
    answer: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


def line(entry: Entry) -> bytes:
    """Return an entry as a line of the books."""
    return _encode(entry) + b"\n"


def read(path: Path) -> list[Entry]:
    """Read all complete lines. A line without an end is still being written."""
    if not path.exists():
        return []
    *lines, _ = path.read_bytes().split(b"\n")
    return [_decode(text) for text in lines]


def count(path: Path) -> int:
    """Count the requests so far."""
    return path.read_bytes().count(b"\n") if path.exists() else 0
