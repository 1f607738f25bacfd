"""A process that starts a redrive and is killed at once."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from standfast import Standfast
from standfast.testing.nursery import report


def start_and_die(url: str, told: str, course: dict[str, Any]) -> None:
    """Plan all letters, have them redriven, tell the redrive's id, and be gone."""
    asyncio.run(_start_and_die(url, told, course))


async def _start_and_die(url: str, told: str, course: dict[str, Any]) -> None:
    sf = Standfast(url)
    plan = await sf.dead_letters.plan()
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga", **course)
    report(Path(told), redrive=redrive.id)
    os.kill(os.getpid(), signal.SIGKILL)
