"""Processes of a worker that is gone: which they are, whether they still run, and how to follow them to their end.

A number alone identifies no process: numbers are used again. So its start time goes with it, and the boot and the
namespace that both belong to.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import msgspec

from standfast.clock import UNKNOWN_BOOT, boot_id
from standfast.concurrency.threads import with_timeout

PROC = Path("/proc")
LOOK_EVERY = 0.1
"""Seconds between two looks at a process that cannot be waited for."""
Whereabouts = Literal["runs", "over", "elsewhere"]


class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """Identifies one process on one machine."""

    pid: int
    started: str
    """When it was started, as the kernel counts; empty if the kernel does not tell."""
    boot: str
    space: str
    """The namespace that its number belongs to: a container has its own."""
    host: str
    exit_code: int | None = None
    """How it ended, if its worker saw that; below zero the signal that killed it."""
    adopted: bool = False
    """Whether a later attempt follows it than the one that launched it."""


@cache
def this_boot() -> str:
    """Identify the present boot."""
    return boot_id()


def identify(pid: int) -> Identity:
    """Identify the process that has this number now."""
    return Identity(pid, _start_time(pid), this_boot(), _space(), socket.gethostname())


def _start_time(pid: int) -> str:
    """Read when a process was started; empty if it does not exist, or is over and not yet reaped."""
    try:
        state, *rest = (
            (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return ""
    return "" if state in {"Z", "X"} else rest[18]


def _space() -> str:
    try:
        return str((PROC / "self/ns/pid").readlink())
    except OSError:
        return ""


def process_state(known: Identity) -> Whereabouts:
    """Say what became of a process that another worker started; `elsewhere` if this host cannot tell.

    Another boot of the same host means that it is over. Another host, or a container's numbers, say nothing.
    """
    if known.exit_code is not None:
        return "over"
    if UNKNOWN_BOOT in {known.boot, this_boot()}:
        return "elsewhere"
    if known.boot != this_boot():
        return "over" if known.host == socket.gethostname() else "elsewhere"
    if known.space != _space() or not known.started or _is_hidden(known.pid):
        return "elsewhere"
    return "runs" if _start_time(known.pid) == known.started else "over"


def _is_hidden(pid: int) -> bool:
    """Return whether a process exists that this user may not see: another user's, if `/proc` is mounted to hide it."""
    if (PROC / str(pid)).exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def end_leftovers(known: Identity, mark: str) -> None:
    """Kill what a program that is over has left in its group, before it is started anew.

    Its end was not seen, so its group's number may have been reused: only processes with `mark` in their
    environment are its own.
    """
    if known.boot == this_boot() and known.space == _space():
        for place in PROC.glob("[0-9]*"):
            if _is_leftover(place, known.pid, mark.encode()):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(int(place.name), signal.SIGKILL)


def _is_leftover(place: Path, group: int, mark: bytes) -> bool:
    try:
        state, _, own, *_ = (place / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return own == str(group) and state != "Z" and mark in (place / "environ").read_bytes().split(b"\0")
    except (OSError, ValueError):  # it ended while it was read, or is another user's
        return False


class Orphan:
    """A program whose worker is gone, followed to its end by another worker. `async with` ends it if cut off."""

    def __init__(self, known: Identity, grace: float) -> None:
        self._known = known
        self._grace = grace

    async def over(self) -> None:
        """Wait until it is over, and kill what it left in its group. Its exit code is lost."""
        while process_state(self._known) == "runs":  # noqa: ASYNC110 - it is not a child of this process, so there is no signal
            await asyncio.sleep(LOOK_EVERY)
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        """Signal its group if that can only be its own: a number is not reused while a group still has it."""
        if _start_time(self._known.pid) in {"", self._known.started}:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._known.pid, number)

    async def __aenter__(self) -> Self:
        """Return it."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it if it still runs."""
        if process_state(self._known) != "runs":
            return
        try:
            self._signal(signal.SIGTERM)
            with suppress(TimeoutError):
                await with_timeout(self.over(), self._grace)
        finally:
            if process_state(self._known) == "runs":
                self._signal(signal.SIGKILL)
