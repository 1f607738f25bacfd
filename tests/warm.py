"""Processes of Python that start warm: forked from one that has imported everything, not started anew.

    process = Warm([sys.executable, str(CHILD), "argument"], stdout=subprocess.PIPE)
    done = run_warm([sys.executable, "-m", "standfast", "--version"], capture_output=True)

They are `subprocess.Popen` and `subprocess.run` in all they do: the process is a child of this one, has its own
environment, directory and files, and ends as Python ends. What depends on how Python itself starts (its flags, what is
imported) must be started the usual way.

Starting Python takes 0.2 to 0.4 s of processor time, a fork a twentieth of that, and the tests start hundreds.
"""

from __future__ import annotations

import array
import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOADED = (
    *("asyncio.subprocess", "sqlite3", "apsw", "psycopg", "rich.table", "rich.progress"),
    *(
        "standfast.application.standfast",
        "standfast.cli.main",
        "standfast.cli.worker_command",
        "standfast.wings.jobs.commands",
        "standfast.wings.jobs.enqueue_commands",
        "standfast.store.postgres.place",
        "standfast.store.postgres.target",
        "standfast.wings.promote.verbs",
    ),
)
"""What a child finds imported."""
PR_SET_CHILD_SUBREAPER = 36
LONGEST_QUESTION = 1 << 20
_libc = ctypes.CDLL(None)


class Warm(subprocess.Popen[Any]):
    """A process of Python, forked."""

    def _execute_child(self, args: Any, *given: Any) -> None:  # what Popen calls to start the program
        cwd, environment = given[4:6]
        pipes = given[9:15]
        question = {
            "arguments": [str(argument) for argument in args[1:]],
            "cwd": str(cwd or Path.cwd()),
            "environment": dict(os.environ) if environment is None else environment,
        }
        streams = [end if end >= 0 else usual for usual, end in enumerate((pipes[0], pipes[3], pipes[5]))]
        self.pid = _server().fork(question, streams)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def run_warm(
    command: list[str],
    *,
    given: str | bytes | None = None,
    capture_output: bool = False,
    timeout: float = 60.0,
    check: bool = False,
    **how: Any,
) -> subprocess.CompletedProcess[Any]:
    """Do what `subprocess.run` does; `given` is what the process reads."""
    if capture_output:
        how |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if given is not None:
        how["stdin"] = subprocess.PIPE
    with Warm(command, **how) as process:
        try:
            out, errors = process.communicate(given, timeout)
        finally:
            process.kill()
    done = subprocess.CompletedProcess(command, process.returncode, out, errors)
    if check:
        done.check_returncode()
    return done


class Server:
    """Asks the warm process to fork."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        paths = [str(ROOT / "src"), str(ROOT)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm", str(theirs.fileno())],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def fork(self, question: dict[str, Any], streams: list[int]) -> int:
        """Have a process forked that becomes a child of this one: it is orphaned, and this one adopts it."""
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))]
        with self._lock:
            _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
            try:
                self._socket.sendmsg([json.dumps(question).encode()], ancillary)
                return int(self._socket.recv(100))
            finally:
                _libc.prctl(PR_SET_CHILD_SUBREAPER, 0)

    def close(self) -> None:
        """Let it go."""
        if self.owner == os.getpid():
            self._socket.close()
            self._process.wait()


_servers: list[Server] = []
_starting = threading.Lock()


def _server() -> Server:
    with _starting:
        if not _servers or _servers[-1].owner != os.getpid():
            _servers.append(Server())
            atexit.register(_servers[-1].close)
        return _servers[-1]


# --- the warm process


def _serve(asking: socket.socket) -> dict[str, Any] | None:
    """Fork whenever asked; give the question in the child, and None when nobody will ask any more."""
    while True:
        question, ancillary, *_ = asking.recvmsg(LONGEST_QUESTION, socket.CMSG_LEN(3 * 4))
        if not question:
            return None
        streams = [number for *_, found in ancillary for number in array.array("i", found)]
        pid = _fork_orphan()
        if not pid:
            asking.close()
            asked: dict[str, Any] = json.loads(question)
            return asked | {"streams": streams}
        for stream in streams:
            os.close(stream)
        asking.send(str(pid).encode())


def _fork_orphan() -> int:
    """Fork a process whose parent is gone when this returns; give its number, and 0 in itself."""
    reading, writing = os.pipe()
    between = os.fork()
    if between:
        os.close(writing)
        told = os.read(reading, 100)
        os.close(reading)
        os.waitpid(between, 0)
        return int(told)
    os.close(reading)
    pid = os.fork()
    if pid:
        os.write(writing, str(pid).encode())
        os._exit(0)
    os.close(writing)
    return 0


def _become(question: dict[str, Any], own_paths: int) -> None:
    """Take the place that the question names."""
    for usual, stream in enumerate(question["streams"]):
        os.dup2(stream, usual)
    for stream in {*question["streams"]} - {0, 1, 2}:
        os.close(stream)
    os.chdir(question["cwd"])
    os.environ.clear()
    os.environ.update(question["environment"])
    paths = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:own_paths] = ["", *paths]
    buffered = "PYTHONUNBUFFERED" not in os.environ
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - they live as long as the process
    for name, number, errors in (("stdout", 1, "strict"), ("stderr", 2, "backslashreplace")):
        stream = open(number, "w", closefd=False, encoding="utf-8", errors=errors)  # noqa: SIM115 - likewise
        stream.reconfigure(line_buffering=os.isatty(number) or number == 2, write_through=not buffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _run(what: str, *arguments: str) -> None:
    """Run as Python does what its command line says."""
    if what == "-m":
        sys.argv = list(arguments)
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        return
    main = type(sys)("__main__")
    sys.modules["__main__"] = main
    if what == "-c":
        code, sys.argv = compile(arguments[0], "<string>", "exec"), ["-c", *arguments[1:]]
    else:
        assert not what.startswith("-"), f"start {what} the usual way"
        code, sys.argv = compile(Path(what).read_text(), what, "exec"), [what, *arguments]
        sys.path[0] = str(Path(what).resolve().parent)
        main.__file__ = what
    exec(code, main.__dict__)  # noqa: S102 - it is what was asked for


if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()
    place = 1 + len(os.environ["PYTHONPATH"].split(os.pathsep))
    if (asked := _serve(socket.socket(fileno=int(sys.argv[1])))) is not None:
        _become(asked, place)
        _run(*asked["arguments"])
