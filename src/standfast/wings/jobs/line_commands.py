"""`enqueue --jsonl`: a job for each line of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import click
import msgspec

from standfast.application import Standfast
from standfast.cli.group import FAILED, ask
from standfast.cli.progress_bar import bar
from standfast.cli.terminal import show_json, show_line
from standfast.concurrency.threads import run_in_thread
from standfast.errors import StandfastError
from standfast.job import Receipt
from standfast.printable import escaped
from standfast.views import Heard, Progress
from standfast.wings.imports.jsonl_reader import jsonl
from standfast.wings.imports.rejects import Rejects
from standfast.wings.imports.words import BadRecord, Record, Unreadable
from standfast.wings.jobs.bulk_lines import NewJobLine, call_of
from standfast.wings.records.figures import count_of, number

TOGETHER = 500
"""Lines that are stored in one transaction."""
MOST_SHOWN = 10
"""The most refused lines that are shown; the file of rejects has all of them."""


def enqueue_lines(file: str, queue: str | None, url: str | None, *, as_json: bool) -> None:
    """Store a job for each line, and show the outcomes."""
    lines = _Lines(file, queue)
    with bar("enqueued") as progress:
        ask(url, lambda sf: lines.store(sf, progress))
    counts = lines.outcomes
    if as_json:
        show_json({"lines": counts.total(), "outcomes": dict(counts), "rejects_file": lines.rejects.path})
    else:
        told = ", ".join(f"{number(count)} {outcome}" for outcome, count in sorted(counts.items()))
        show_line(f"{count_of(counts.total(), 'line')}: {told or 'nothing to store'}")
    if counts["refused"]:
        click.echo(f"{count_of(counts['refused'], 'line')} refused; all of them are in {lines.rejects.path}", err=True)
        raise click.exceptions.Exit(FAILED)


class _Lines:
    """The lines of a file, on their way into the store."""

    def __init__(self, file: str, queue: str | None) -> None:
        self._source = jsonl(file)
        self._queue = queue
        self.rejects = Rejects(self._source.rejects)
        self.outcomes: Counter[str] = Counter()

    async def store(self, sf: Standfast, progress: Heard) -> None:
        """Store everything, some lines at a time."""
        total = await run_in_thread(self._source.count)
        records = self._source.read()
        try:
            while some := await run_in_thread(_some, records):
                await self._store(sf, some)
                progress(Progress("enqueued", self.outcomes.total(), total))
        finally:
            self.rejects.close()

    async def _store(self, sf: Standfast, records: list[Record | BadRecord]) -> None:
        calls = [(record, self._call(record)) for record in records]
        answers = iter(await sf.enqueue_each(each for _, each in calls if isinstance(each, dict)))
        for record, each in calls:
            self._note(record, next(answers) if isinstance(each, dict) else each)

    def _call(self, record: Record | BadRecord) -> dict[str, Any] | StandfastError:
        """Read a line as the job that it asks for."""
        if isinstance(record, BadRecord):
            return Unreadable(record.why)
        named = record.value if self._queue is None else {"queue": self._queue, **record.value}
        try:
            return call_of(msgspec.convert(named, NewJobLine))
        except msgspec.ValidationError as error:
            return Unreadable(f"it does not fit: {error}")

    def _note(self, record: Record | BadRecord, answer: Receipt | StandfastError) -> None:
        if isinstance(answer, Receipt):
            self.outcomes[answer.outcome] += 1
            return
        self.outcomes["refused"] += 1
        self.rejects.add(record, str(answer))
        if self.outcomes["refused"] <= MOST_SHOWN:
            click.echo(f"{escaped(record.name)}: {escaped(str(answer))}", err=True)


def _some(records: Iterator[Record | BadRecord]) -> list[Record | BadRecord]:
    return list(islice(records, TOGETHER))
