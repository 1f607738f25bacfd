"""An application whose isolated handlers misbehave, each in its own way."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from standfast import Standfast, fixed
from standfast.wings.isolation.messages import LENGTH, Report, framed

EXITS = "UNRULY_APP_EXITS"
if os.environ.get(EXITS):  # as an application does that a deployment broke
    os._exit(7)

WORSE_THAN_NONE = {
    "garbage": LENGTH.pack(3) + b"\xc1\xc1\xc1",
    "refused": framed(Report(float("nan"))),  # a message, but one that the worker cannot act on
}
"""What a child may send although its own code never does."""


class Share(float):
    """A number of another library, such as one of NumPy's."""


def register(made: Standfast) -> None:
    """Declare the queues and handlers."""
    for queue in ("spoils", "reports"):
        made.queue(queue, attempts=2, backoff=fixed(0.05))
    made.queue("quits", attempts=2, backoff=fixed(0.05), lease=3)
    made.handler("quits", isolate=True)(quits)
    made.queue("brief", attempts=1)
    made.handler("brief", isolate=True, timeout=3)(brief)
    made.handler("spoils", isolate=True, timeout=60)(spoils)
    made.handler("spoils_later", isolate=True)(spoils_later)
    made.handler("reports", isolate=True)(reports)
    made.handler("reports_in_thread")(reports)


def quits(job: Any) -> str:
    """End the process at the first attempt."""
    if job.attempt == 1:
        os._exit(3)
    return "done"


def brief(_job: Any) -> int:
    """Do next to nothing."""
    return os.getpid()


def spoils(job: Any) -> None:
    """Note who runs the job and who else still does, spoil the wire to the worker, and go on for ever."""
    said = Path(job.payload["said"])
    earlier = [int(line.split()[0]) for line in said.read_text().splitlines()] if said.exists() else []
    with said.open("a") as file:
        file.write(f"{os.getpid()} {sum(map(is_running, earlier))}\n")
    os.write(int(sys.argv[1]), WORSE_THAN_NONE[job.payload["how"]])
    while True:
        pass


def spoils_later(job: Any) -> int:
    """Leave a thread behind that spoils the wire once it is told to, as the payload says."""
    told, done = Path(f"{job.payload}.told"), Path(f"{job.payload}.done")

    def spoil() -> None:
        while not told.exists():
            time.sleep(0.005)
        os.write(int(sys.argv[1]), WORSE_THAN_NONE["garbage"])
        done.touch()

    threading.Thread(target=spoil, daemon=True).start()
    return os.getpid()


def is_running(pid: int) -> bool:
    """Tell whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


REPORTS: dict[str, tuple[Any, ...]] = {
    "a number for a note": (0.4, 7),
    "a number of another library": (Share(0.4), "almost half"),
    "too much": (7, "seven times as much"),
    "half a character": (0.4, "\udc80"),
    "no number": (float("nan"),),
    "text": ("50%",),
}


def reports(job: Any) -> str:
    """Report progress as a careless author would, and say what came of it."""
    try:
        job.progress(*REPORTS[job.payload])
    except TypeError as error:
        return str(error)
    return "reported"


sf = Standfast()
register(sf)
