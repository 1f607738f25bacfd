"""The messages between a worker and its child processes: length and msgpack, over one socket."""

from __future__ import annotations

import struct
from typing import NamedTuple

import msgspec

from standfast.job import Claim, LedgerEntry, LedgerNote
from standfast.outcome import Cancel, Failed, Snooze, Succeeded
from standfast.rules import QueueRules

LENGTH = struct.Struct(">I")


class Place(NamedTuple):
    """Where a handler is registered: what the child imports, and by which names it then finds the handler.

    `script` is the file of the main program, if that registers it. `application` is the module of an application that
    registers it on first use: importing `module` alone may not.
    """

    queue: str
    name: str
    qualname: str
    module: str
    script: str | None = None
    application: str = ""


class Prepare(msgspec.Struct, tag=True):
    """Import the module that registers a handler; `path` is the worker's `sys.path`."""

    place: Place
    path: list[str]
    log_level: int


class Prepared(msgspec.Struct, tag=True):
    """The handler is imported; or the reason why it is not."""

    error: str | None = None


class Begin(msgspec.Struct, tag=True):
    """Run a handler."""

    place: Place
    claim: Claim
    rules: QueueRules
    declared: tuple[str, ...]
    """The effects that the job's ledger knows."""


class Entered(msgspec.Struct, tag=True):
    """The handler is entered now: from here on, its effects may exist."""


class Stop(msgspec.Struct, tag=True):
    """Set `job.cancelled`."""


class Note(msgspec.Struct, tag=True):
    """Write a note into the ledger; answered by `Noted`."""

    note: LedgerNote


class FetchReceipt(msgspec.Struct, tag=True):
    """Read a receipt that was too big to come with the job; answered by `Fetched`."""

    name: str


class FetchResult(msgspec.Struct, tag=True):
    """Read the result of an earlier step; answered by `Fetched`."""

    step: int


class Noted(msgspec.Struct, tag=True):
    """The state of an effect after a note, or why the note could not be written."""

    entry: LedgerEntry | None = None
    error: str | None = None


class Fetched(msgspec.Struct, tag=True):
    """What was read, or why it could not be."""

    text: str | None = None
    error: str | None = None


class Report(msgspec.Struct, tag=True):
    """The progress that the handler reports."""

    fraction: float
    note: str | None = None


class LogLine(msgspec.Struct, tag=True):
    """A line that the handler logged."""

    name: str
    level: int
    text: str
    file: str
    line: int
    function: str | None
    trace: str | None = None


class Ended(msgspec.Struct, tag=True):
    """The outcome: one of the four, and if it raised, the traceback and the pickled exception."""

    succeeded: Succeeded | None = None
    failed: Failed | None = None
    snoozed: Snooze | None = None
    cancelled: Cancel | None = None
    trace: str | None = None
    error: bytes | None = None


ToChild = Prepare | Begin | Stop | Noted | Fetched
ToParent = Prepared | Entered | Note | FetchReceipt | FetchResult | Report | LogLine | Ended

read_in_child = msgspec.msgpack.Decoder(ToChild).decode
read_in_parent = msgspec.msgpack.Decoder(ToParent).decode
_encode = msgspec.msgpack.Encoder().encode


def framed(message: ToChild | ToParent) -> bytes:
    """Return a message in the form in which it is sent."""
    body = _encode(message)
    return LENGTH.pack(len(body)) + body
