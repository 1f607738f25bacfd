"""An application with a queue at its limit, whose jobs end when the test says so, and a queue without one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from standfast import Standfast

sf = Standfast()
place = Path(os.environ["LIMITED_PLACE"])
LIMITS: dict[str, dict[str, Any]] = {"concurrency": {"concurrency": 2}, "rate": {"rate": "2/s"}}
sf.queue("api", lease=600, **LIMITS[os.environ["LIMITED_BY"]])


@sf.handler("api")
async def api(job: Any) -> str:
    """Say that this began, and wait until the job, or every job, may end."""
    note(job.payload["name"])
    ends = (place / f"end {job.payload['name']}", place / "end all")
    while not any(map(Path.exists, ends)):  # noqa: ASYNC110 - another process tells
        await asyncio.sleep(0.01)
    return "done"


@sf.handler("other")
async def other(job: Any) -> str:
    note(job.payload["name"])
    return "done"


def note(name: str) -> None:
    with (place / "started").open("a") as file:
        file.write(f"{name} {os.getpid()}\n")
