"""The heads of the chain, noted outside the database: a log line and a line in a file, after the commit.

A line covers every link up to its own. If a line is missing because the process was killed in between, the next line
makes up for it, or one written when the store is opened. Lines of several processes may be out of order.

Many hosts may write to one store, and each has a file of its own, or none. So every link says in which file its head
is to be noted, and a file must only have lines for the links that name it. The first line of a file names it: in a new
file that is a random number, in one of an older library the first head, which that file shares with no other file of
its host. To an older library, the number is a line that a crash tore, which it passes over.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from standfast.errors import ConfigurationError
from standfast.portable import NO_LINK, sync_directory
from standfast.store.steps import Script
from standfast.wings.audit.scripts import MissingLinks, StoredHead, links_to_note, peek
from standfast.wings.audit.words import Head, NotedIn

log = logging.getLogger("standfast.audit")

LAST_BYTES = 4096
"""How much of the file's end is read to see whether the present head is there."""
AT_ONCE = 1000
LONGEST_LAG = 60.0
"""A killed process can leave this many seconds of decisions without a line: it writes one after each commit."""
LONGEST_LINE = 100
_NUMBER = re.compile(rb"\d{39}")
"""The first line of a new file."""
_LINE = re.compile(rb"(\d+) ([0-9a-f]{64})\n")
_TORN = re.compile(rb"\d*(?: [0-9a-f]{0,64})?\n?")
"""What a crash may leave of a line."""
_CUT = re.compile(rb"cut (-?\d+) (\d+)\n")


class BadLine(NamedTuple):
    """A line of the file that is not a head: it notes links missing when the store was opened, or is not ours."""

    line: int
    missing: tuple[int, int] | None = None


class Anchor:
    """Where the heads of one store are noted. The writer only hands them over, and never waits for the file."""

    def __init__(self, path: str | None, noted_in: NotedIn | None = None) -> None:
        self.path = path
        self._noted_in = noted_in or NotedIn()
        """Where those who write links find the name of the file."""
        self._number = f"{secrets.randbits(128):039d}\n".encode()
        """The first line of the file, if this process begins it."""
        self.problem: str | None = None
        """Why the last head could not be noted in the file; None if it was noted."""
        self._heads: deque[Head] = deque()
        self._hand: ThreadPoolExecutor | None = None

    def drop(self, heads: Sequence[Head]) -> None:
        """Note heads that were committed."""
        self._heads.extend(heads)
        if self._hand is None:
            self._hand = ThreadPoolExecutor(1, thread_name_prefix="standfast-anchor")
        try:
            self._hand.submit(self._note)
        except RuntimeError:  # the interpreter is ending, and the writer still writes
            self._note()

    def catch_up(self, ask: Callable[[Script[Any]], Any]) -> None:
        """Note the head of a store that was just opened, if its writer could not; `ask` reads from the store.

        If the links that this file has no lines for were written over a longer time than a crash explains, lines were
        removed, or could not be written then: that is noted first, so that it stays known.
        """
        if self.path is None:
            return
        self._noted_in.name = _name(self._number)
        found: StoredHead | None = ask(peek())
        with self._reporting():
            known = Path(self.path).exists()
            if known:
                self._noted_in.name = name_of(self.path)  # none if the file was emptied: then every link counts
            last = max((each.seq for each in _heads(_tail(self.path))), default=-1)
            if found is not None and last < found.head.seq:
                missing = ask(links_to_note(last, self._noted_in.name)) if known else None
                self._append(_cut(missing) + _lines([found.head]))

    def close(self) -> None:
        """Note the heads that were handed over, and stop."""
        if self._hand is not None:
            self._hand.shutdown()
            self._hand = None

    def _note(self) -> None:
        """Note all waiting heads with one flush: under load there are many."""
        heads = [self._heads.popleft() for _ in range(len(self._heads))]
        for head in heads:
            log.info("audit head %d %s", *head)
        if self.path is not None and heads:
            with self._reporting():
                self._append(_lines(heads))

    def _append(self, lines: bytes) -> None:
        """Append to the file, and learn its name: another process may have begun it."""
        if self.path is not None:
            append(self.path, lines, self._number)
            self._noted_in.name = name_of(self.path)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Report a file that takes no lines to the log and to health: the work goes on without it."""
        try:
            yield
            self.problem = None
        except OSError as error:
            self.problem = f"{self.path}: {error.strerror or error}"
            log.warning(
                "cannot note the audit chain's head in %s: %s; fix that, and the next head is noted", self.path, error
            )


def _cut(missing: MissingLinks | None) -> bytes:
    """Return the note that lines are missing, if a crash does not explain it."""
    if missing is None or missing.seconds <= LONGEST_LAG:
        return b""
    return f"cut {missing.first - 1} {missing.last}\n".encode()


def append(path: str, lines: bytes, first: bytes) -> None:
    """Append lines, on disk when this returns; a line that a crash tore off stays a separate line.

    A file that is new or empty gets the `first` line too.
    """
    new = not Path(path).exists()
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | NO_LINK, 0o600)
    try:
        end = os.fstat(handle).st_size
        torn = end > 0 and _last_byte(handle) != b"\n"
        os.write(handle, first + lines if end == 0 else b"\n" + lines if torn else lines)
        os.fsync(handle)
    finally:
        os.close(handle)
    if new:
        sync_directory(Path(path).parent)


def name_of(path: str) -> str | None:
    """Return the name of a file, by its first line; None if it has none yet."""
    if not Path(path).exists():
        return None
    with Path(path).open("rb") as file:
        first = file.readline(LONGEST_LINE).strip()
    return _name(first) if first else None


def _name(first: bytes) -> str:
    """Name a file by its first line. Files of several hosts may begin with the same head, but not with one number."""
    told_apart = first.strip() if _NUMBER.fullmatch(first.strip()) else first + socket.gethostname().encode()
    return hashlib.sha256(told_apart).hexdigest()[:32]


def _last_byte(handle: int) -> bytes:
    os.lseek(handle, -1, os.SEEK_END)
    return os.read(handle, 1)


def size(path: str | None) -> int:
    """Return the present size of the file."""
    return Path(path).stat().st_size if path is not None and Path(path).exists() else 0


def read_heads(path: str, upto: int) -> Iterator[Sequence[Head]]:
    """Read the heads noted up to a size, in bites; a torn line is skipped."""
    with _readable(path) as file:
        found = _heads(line for line in iter(file.readline, b"") if file.tell() <= upto)
        while some := list(islice(found, AT_ONCE)):
            yield some


def bad_lines(path: str, upto: int) -> Iterator[BadLine]:
    """Find notes of missing lines, and lines that this library never wrote."""
    with _readable(path) as file:
        for number, line in enumerate(iter(file.readline, b""), 1):
            if file.tell() > upto:
                return
            cut = _CUT.fullmatch(line)
            if cut is not None:
                yield BadLine(number, (int(cut[1]), int(cut[2])))
            elif not _LINE.fullmatch(line) and not _TORN.fullmatch(line):
                yield BadLine(number)


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
    """Return the last lines; the first of them may be torn."""
    length = size(path)
    if not length:
        return iter(())
    with Path(path).open("rb") as file:
        file.seek(max(0, length - LAST_BYTES))
        return iter(file.readlines())
