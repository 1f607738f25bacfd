"""An application whose plain handlers run in processes of their own."""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from standfast import Cancel, Effect, Snooze, Standfast, Transient, current_session, fixed

log = logging.getLogger("tests.isolated")
log.warning("the application is imported")


class Declined(Exception):
    """An exception with more than a text."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, code)
        self.code = code


class Unpicklable(Exception):
    """An exception that cannot be rebuilt: it wants an argument that it does not keep."""

    def __init__(self, message: str, _socket: object) -> None:
        super().__init__(message)


def register(made: Standfast) -> None:
    """Declare the queues and handlers."""
    for queue in ("loop", "spins", "ends", "dies", "polls", "ticket"):
        made.queue(queue, attempts=2, backoff=fixed(0.05))
    made.handler("loop", isolate=True, timeout=0.3)(loop)
    made.handler("spins", isolate=True, timeout=60)(loop)
    made.handler("ends", isolate=True)(ends)
    made.handler("dies", isolate=True)(dies)
    made.handler("talks", isolate=True)(talks)
    made.handler("polls", isolate=True, timeout=60)(polls)
    made.handler("ticket", isolate=True, effects=[Effect("ticket")])(ticket)


def loop(job: Any) -> None:
    """Start a process, say which, and never end."""
    started = subprocess.Popen(["/bin/sleep", "600"])
    with Path(job.payload).open("a") as file:
        file.write(f"{os.getpid()} {started.pid}\n")
    while True:
        pass


def ends(job: Any) -> Any:
    """End as the payload says."""
    log.warning("job %s is entered", job.id)
    match job.payload:
        case "later":
            raise Transient("not now", reason_code="dependency_unavailable", error_kind="Busy", retry_after=0.01)
        case "value":
            raise ValueError("no such thing")
        case "declined":
            raise Declined("no money", 51)
        case "unpicklable":
            raise Unpicklable("no line", object())
        case "exit":
            raise SystemExit(4)
        case "snooze":
            return Snooze(0.01) if not job.session else "awake"
        case "halfway":
            job.progress(0.1, "begun")
            job.progress(0.5, "halfway")
            raise ValueError("it stops here")
        case "cancel":
            return Cancel("no longer wanted")
        case "soft":
            return {"success": False, "error": "it says so"}
    return {"pid": os.getpid(), "session": current_session(), "attempt": job.attempt}


def talks(job: Any) -> int:
    """Leave a thread behind that goes on logging and reporting, as many libraries do."""

    def talk() -> None:
        while True:
            log.warning("still here")
            job.progress(0.5, "still here")
            time.sleep(0.001)

    threading.Thread(target=talk, daemon=True).start()
    return os.getpid()


def dies(job: Any) -> None:
    """End the process."""
    if job.payload == "exit":
        os._exit(3)
    ctypes.string_at(0)


def polls(job: Any) -> str:
    """Run until it is told to stop."""
    Path(job.payload).touch()
    while not job.cancelled:
        time.sleep(0.01)
    return "put away"


def ticket(job: Any) -> dict[str, Any]:
    """Do an effect and a step, and die once behind them."""
    made = job.once_sync("ticket", lambda: {"by": job.attempt})
    with job.effect("ticket") as effect:
        assert effect.done
    step = job.step_sync("step", lambda: job.attempt)
    if job.attempt == 1:
        os._exit(1)
    return {"ticket": made, "step": step}


sf = Standfast()
register(sf)
