"""The heads of the chain, noted outside of the database: a log line and a line in a file, after the commit.

A line covers every link up to its own. One that is missing, because the process was killed in between, is made up for
by the next, or when the store is opened. Lines of several processes may stand in another order than their numbers.
"""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from standfast.chain import Head
from standfast.errors import ConfigurationError
from standfast.store.audit import Noted

log = logging.getLogger("standfast.audit")

LAST_BYTES = 4096
"""How much of the file's end is looked at to see whether the present head is there."""
AT_ONCE = 1000
_LINE = re.compile(rb"(\d+) ([0-9a-f]{64})\n")


class Anchor:
    """Where the heads of one store are noted. The writer only hands them over: it waits for no file."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self._heads: deque[Head] = deque()
        self._hand: ThreadPoolExecutor | None = None

    def drop(self, heads: Sequence[Head]) -> None:
        """Note heads that were committed."""
        self._heads.extend(heads)
        if self._hand is None:
            self._hand = ThreadPoolExecutor(1, thread_name_prefix="standfast-anchor")
        self._hand.submit(self._note)

    def catch_up(self, found: Noted | None) -> None:
        """Note the head of a store that was just opened, if whoever wrote it could not."""
        if self.path is None or found is None:
            return
        with self._told():
            if all(known.seq < found.head.seq for known in _heads(_tail(self.path))):
                append(self.path, _lines([found.head]))

    def close(self) -> None:
        """Note what was handed over, and end."""
        if self._hand is not None:
            self._hand.shutdown()
            self._hand = None

    def _note(self) -> None:
        """Note all that waits, with one flush: under load they are many."""
        heads = [self._heads.popleft() for _ in range(len(self._heads))]
        for head in heads:
            log.info("audit head %d %s", *head)
        if self.path is not None and heads:
            with self._told():
                append(self.path, _lines(heads))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Have whoever reads the log know of a file that does not take lines: the work goes on without it."""
        try:
            yield
        except OSError as error:
            log.warning("cannot note the audit chain's head in %s: %s; mend that, the next is noted", self.path, error)


def append(path: str, lines: bytes) -> None:
    """Put lines behind those that are there, on disk when this returns; what a crash tore off stays apart."""
    new = not Path(path).exists()
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        end = os.fstat(handle).st_size
        torn = end > 0 and os.pread(handle, 1, end - 1) != b"\n"
        os.write(handle, b"\n" + lines if torn else lines)
        os.fsync(handle)
    finally:
        os.close(handle)
    if new:
        _sync_directory(Path(path).parent)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def size(path: str | None) -> int:
    """Give how much is noted by now."""
    return Path(path).stat().st_size if path is not None and Path(path).exists() else 0


def noted(path: str, upto: int) -> Iterator[Sequence[Head]]:
    """Read what was noted up to a size, in bites; a torn line is none."""
    with _readable(path) as file:
        found = _heads(line for line in iter(file.readline, b"") if file.tell() <= upto)
        while some := list(islice(found, AT_ONCE)):
            yield some


@contextmanager
def _readable(path: str) -> Iterator[BinaryIO]:
    try:
        with Path(path).open("rb") as file:
            yield file
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error}; let this user read what was noted there") from error


def _lines(heads: Iterable[Head]) -> bytes:
    return "".join(f"{seq} {hashed}\n" for seq, hashed in heads).encode()


def _heads(lines: Iterator[bytes]) -> Iterator[Head]:
    for line in lines:
        found = _LINE.fullmatch(line)
        if found is not None:
            yield Head(int(found[1]), found[2].decode())


def _tail(path: str) -> Iterator[bytes]:
    """Give the last lines; the first of them may be torn."""
    length = size(path)
    if not length:
        return iter(())
    with Path(path).open("rb") as file:
        file.seek(max(0, length - LAST_BYTES))
        return iter(file.readlines())
