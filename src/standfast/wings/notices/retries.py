"""The details of retry notices: read from the history of their jobs, so that the journal stays small."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from standfast.lifecycle import NoticeKind
from standfast.store.store import Store
from standfast.wings.notices import scripts as journal_scripts
from standfast.wings.notices.scripts import JournalRow
from standfast.wings.notices.words import RetryData, entries

MARK = f'"{NoticeKind.RETRY}"'
SAME_TRANSACTION = 1e-3
"""How many seconds a history line and a journal row may differ that were written with one time."""


class Line(msgspec.Struct):
    """What a history line says about a retry."""

    at: float
    attempt: int = 0
    reason_code: str | None = None
    delay: float | None = None


_line = msgspec.json.Decoder(Line).decode


async def retries_of(store: Store, rows: Sequence[JournalRow], skew: float) -> dict[int, RetryData]:
    """Return the details of the retries in these rows, by row and by job; a job that is gone has none."""
    wanted = {row.seq: _retried(row) for row in rows if MARK in row.entries}
    ids = {job for jobs in wanted.values() for job in jobs}
    if not ids:
        return {}
    lines: defaultdict[str, list[Line]] = defaultdict(list)
    for job, text in await store.read(journal_scripts.retry_lines(sorted(ids))):
        lines[job].append(_line(text))
    moments = {row.seq: row.at for row in rows}
    return {seq: _said(jobs, lines, moments[seq], skew) for seq, jobs in wanted.items()}


def _retried(row: JournalRow) -> list[str]:
    return [job for kind, _, jobs in entries(row.entries) if kind == NoticeKind.RETRY for job in jobs]


def _said(jobs: Sequence[str], lines: dict[str, list[Line]], at: float, skew: float) -> RetryData:
    found = {job: line for job in jobs for line in lines[job] if abs(line.at - at) < SAME_TRANSACTION}
    return {
        job: {
            "attempt": line.attempt,
            "reason_code": line.reason_code,
            "retry_at": _moment(line.at + (line.delay or 0.0) + skew),
        }
        for job, line in found.items()
    }


def _moment(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
