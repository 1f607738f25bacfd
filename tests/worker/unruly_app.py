"""An application whose isolated handlers misbehave, each in its own way."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from standfast import Cancel, Snooze, Standfast, fixed
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


class Level(int):
    """The same for whole numbers."""


class Silent:
    """What cannot be written as text."""

    def __str__(self) -> str:
        raise ValueError("it has no text")


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
    made.queue("logs", attempts=1)
    made.handler("logs", isolate=True)(logs)
    made.queue("ends_oddly", attempts=1)
    made.handler("ends_oddly", isolate=True)(ends_oddly)
    made.handler("ends_oddly_in_thread")(ends_oddly)
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


log = logging.getLogger("tests.unruly")


def record(**fields: Any) -> logging.LogRecord:
    """Make a record as programs do that pass on the records of others."""
    return logging.makeLogRecord({"name": "tests.unruly", "levelno": logging.WARNING, "levelname": "WARNING", **fields})


LOGS: dict[str, Callable[[], None]] = {
    "wrong arguments": lambda: log.warning("count %d", "seven"),
    "no text": lambda: log.warning("%s", Silent()),
    "half a character": lambda: log.warning("read \udc80"),
    "no function": lambda: log.handle(record(msg="nowhere", funcName=None)),
    "a name that is no text": lambda: log.handle(record(msg="seventh", name=7)),
    "a level of another library": lambda: log.log(Level(30), "level 30"),
}


def logs(job: Any) -> str:
    """Log as a careless author would."""
    LOGS[job.payload]()
    return "done"


ENDS: dict[str, Any] = {
    "a snooze": Snooze(Share(0.01)),
    "a cancel": Cancel("not \udc80 wanted"),
}


def ends_oddly(job: Any) -> Any:
    """Return an outcome that another library's values are part of."""
    return ENDS[job.payload]


sf = Standfast()
register(sf)
