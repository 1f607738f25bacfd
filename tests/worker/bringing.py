"""An import in a process of its own, to be killed: `python bringing.py DATABASE FILE`. It prints how far it is."""

from __future__ import annotations

import asyncio
import sys

from standfast import Standfast
from standfast.views import Progress
from standfast.wings.imports import import_run, known_shapes
from standfast.wings.imports.jsonl_reader import jsonl

AT_ONCE = 20


def say(step: Progress) -> None:
    """Print how many records are on disk."""
    print(step.done, flush=True)  # noqa: T201 - the test that started this waits for it


async def bring_in(url: str, file: str) -> None:
    """Import, and print what became of the records."""
    import_run.BATCH = AT_ONCE
    async with Standfast(url) as sf:
        report = await sf.imports.bring_in(jsonl(file), known_shapes.JSONL, by="ann", progress=say)
    print(dict(report.outcomes), flush=True)  # noqa: T201 - likewise


if __name__ == "__main__":
    asyncio.run(bring_in(*sys.argv[1:]))
