"""A Python without what Windows has not: run by the tests as the first thing of a process.

    python -m tests.portability.elsewhere PROGRAM [ARGUMENT …]

`asyncio` of this system needs some of it itself, so that is imported first. `msvcrt` is stood in
for by `lockf`, which locks a byte of a file as it does; nothing else is put in place of what is taken away.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import runpy
import select
import signal
import socket
import sys
import time
import types
from pathlib import Path
from typing import Any

GONE = {
    os: ("fork", "register_at_fork", "getuid", "geteuid", "getgid", "killpg", "pread"),
    select: ("poll",),
    time: ("clock_gettime",),
}
CONSTANTS = {os: ("O_CLOEXEC", "O_NOFOLLOW"), socket: ("AF_UNIX",), signal: ("SIGKILL", "SIGHUP")}
MODULES = ("fcntl", "pwd", "grp", "resource", "termios", "pty", "tty")


def byte_locks() -> Any:
    """Stand in for msvcrt."""
    module: Any = types.ModuleType("msvcrt")
    module.LK_NBLCK, module.LK_UNLCK = 2, 0

    def locking(descriptor: int, how: int, count: int) -> None:
        wanted = fcntl.LOCK_UN if how == module.LK_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
        try:
            fcntl.lockf(descriptor, wanted, count, 0, os.SEEK_CUR)
        except BlockingIOError as error:
            raise PermissionError(*error.args) from error

    module.locking = locking
    return module


def no_signals(*_: object) -> None:
    """Answer as the loop of Windows does."""
    raise NotImplementedError


def take_away() -> None:
    """Have this process do without."""
    pair, family = socket.socketpair, socket.AF_UNIX
    sockets: Any = socket
    sockets.socketpair = lambda *_: pair(family)
    loop: Any = asyncio.SelectorEventLoop
    loop.add_signal_handler = loop.remove_signal_handler = no_signals
    sys.modules["msvcrt"] = byte_locks()
    modules: dict[str, Any] = sys.modules
    modules.update(dict.fromkeys(MODULES))
    for missing in (GONE, CONSTANTS):
        for module, names in missing.items():
            for name in names:
                if hasattr(module, name):
                    delattr(module, name)


if __name__ == "__main__":
    take_away()
    program, sys.argv = sys.argv[1], sys.argv[1:]
    if program.endswith(".py"):
        sys.path.insert(0, str(Path(program).parent))
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__")
