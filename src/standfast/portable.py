"""The differences between operating systems, in one place: all other modules ask this one.

Linux has everything. Where a part is missing, as on Windows, another takes its place, or this module says that there is
none; none of it is needed to import standfast.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any


def _module(name: str) -> Any:
    """Import a module that not every system has; return None if it is missing."""
    try:
        return import_module(name)
    except ImportError:
        return None


fcntl, msvcrt, pwd = _module("fcntl"), _module("msvcrt"), _module("pwd")

OWN_HANDLE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)
"""Flags to open a file that programs started from here must not inherit."""
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
KILL: int = getattr(signal, "SIGKILL", signal.SIGTERM)
HAS_UNIX_SOCKETS = hasattr(socket, "AF_UNIX")
CAN_RUN_CHILDREN = hasattr(os, "killpg")
"""Whether a child process can have a pipe and its own process group, to be killed with everything it started."""
LOCKED_BYTE = 1 << 30
"""Where `msvcrt` locks. Its lock keeps other processes from reading, so it is far behind anything that is written."""

seconds_since_boot: Callable[[], float] = (
    partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    if hasattr(time, "clock_gettime")
    else time.monotonic
)
"""Seconds since boot, including suspend if the system counts it."""


# --- files


def _lock_byte(descriptor: int, how: int) -> None:
    """Lock with `msvcrt`, as `flock` would without waiting."""
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, how, 1)
    except PermissionError as error:
        raise BlockingIOError(*error.args) from error
    finally:
        os.lseek(descriptor, place, os.SEEK_SET)


lock: Callable[[int, int], None]
"""Locks a file for as long as its descriptor is open, or releases it; BlockingIOError if another process has it.

`msvcrt` has no shared locks: two processes that check at the same moment may each find it locked, and check again.
"""
if fcntl is not None:
    lock, EXCLUSIVE, SHARED = fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_SH | fcntl.LOCK_NB
    FREE = fcntl.LOCK_UN
else:
    lock, EXCLUSIVE, SHARED, FREE = _lock_byte, msvcrt.LK_NBLCK, msvcrt.LK_NBLCK, msvcrt.LK_UNLCK


def sync_directory(directory: Path) -> None:
    """Sync a new name in a directory to disk. Windows does that by itself, and cannot open a directory."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except PermissionError:
        if os.name == "nt":
            return
        raise
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- users and processes


def user_name() -> str:
    """Return the name of this process's user, as the system knows it: an environment variable may say anything."""
    if pwd is None:
        return _login()
    try:
        return str(pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:  # this number has no name, as in a bare container
        return f"uid-{os.getuid()}"


def _login() -> str:
    try:
        return os.getlogin()
    except OSError:  # a service without a session
        return os.environ.get("USERNAME", "unknown")


def user_id() -> int:
    """Return the number of this user; 0 if the system has no user numbers."""
    return os.getuid() if hasattr(os, "getuid") else 0


def at_fork(
    *,
    before: Callable[[], None] | None = None,
    after_in_parent: Callable[[], None] | None = None,
    after_in_child: Callable[[], None] | None = None,
) -> None:
    """Call these functions around every fork, if the system can fork processes."""
    calls = {"before": before, "after_in_parent": after_in_parent, "after_in_child": after_in_child}
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**{name: call for name, call in calls.items() if call is not None})


def on_signal(number: int, callback: Callable[..., Any], *given: Any) -> None:
    """Call this function on the running loop when a signal comes; it replaces the previous one."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(number, callback, *given)
    except NotImplementedError:  # Windows' loop: Python itself receives the signal, and tells the loop
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(callback, *given))


def forget_signal(number: int) -> None:
    """Restore the default behaviour of a signal."""
    try:
        asyncio.get_running_loop().remove_signal_handler(number)
    except NotImplementedError:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


# --- sockets


def wait_for(descriptor: int, seconds: float, *, readable: bool = True, writable: bool = False) -> bool:
    """Wait until a socket can be read or written; return False if that takes too long."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(descriptor, (select.POLLIN if readable else 0) | (select.POLLOUT if writable else 0))
        return bool(poll.poll(seconds * 1000))
    return any(select.select([descriptor] * readable, [descriptor] * writable, [], seconds))
