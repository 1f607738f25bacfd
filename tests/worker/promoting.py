"""Promotes a store, and does what a test asks at a step: `python promoting.py SOURCE TARGET SETTINGS`.

Prints the steps and the account, or what was refused.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import msgspec
import psycopg

from standfast import StandfastError
from standfast.store.sqlite import source
from standfast.views import Progress
from standfast.wings.promote import tables as promotion
from standfast.wings.promote import verbs as promotions
from tests.postgres import connect


class Settings(msgspec.Struct):
    """What a test may ask for. Steps are counted from 0."""

    kill_at: int | None = None
    tamper_at: str | None = None
    tamper: str = ""
    wait: float = 20.0
    heard_of_within: float = 60.0
    no_claims_for: float = 10.0
    block: int = 1000


def main(from_: str, to: str, settings: Settings) -> dict[str, Any]:
    """Promote; `told` is called between the steps."""
    source.HEARD_OF_WITHIN, source.NO_CLAIMS_FOR = settings.heard_of_within, settings.no_claims_for
    promotion.BLOCK = settings.block
    steps: list[str] = []

    def told(step: Progress) -> None:
        if len(steps) == settings.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if step.what == settings.tamper_at and step.what not in steps:
            tamper(to, settings.tamper)
        steps.append(step.what)

    try:
        account = promotions.promote(from_, to, wait=settings.wait, progress=told)
    except StandfastError as error:
        return {"steps": steps, "refused": str(error), "kind": type(error).__name__}
    return {"steps": steps, "account": account}


def tamper(url: str, sql: str) -> None:
    """Do what only a mistake or an intruder does."""
    with connect(url) as beside:
        beside.execute("SET standfast.promoting TO 'yes'")
        done = beside.execute(psycopg.sql.SQL(sql))
        assert done.rowcount == 1


if __name__ == "__main__":
    settings_ = msgspec.json.decode(sys.argv[3] if len(sys.argv) > 3 else "{}", type=Settings)
    print(msgspec.json.encode(main(sys.argv[1], sys.argv[2], settings_)).decode())  # noqa: T201 - the test reads it
