"""Exports letters, one JSON line each: whole, so that another store can import them. No secret in them is hidden."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from io import TextIOBase
from pathlib import Path
from typing import IO, Any

import msgspec

from standfast.concurrency.threads import run_in_thread
from standfast.errors import ConfigurationError
from standfast.job import Details
from standfast.store.store import Store
from standfast.typed.letter_options import LetterFilter
from standfast.views import Heard, Progress
from standfast.wings.approvals.people import checked_actor
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.words import Decision
from standfast.wings.records import reads
from standfast.wings.records.letter_filter import letter_filter
from standfast.wings.records.reads import JobRecord
from standfast.wings.records.view import job_view

FORMAT = 1
"""The version of this format, in every line; a reader that does not know it refuses."""
BITE = 200
"""How many letters are read at once."""

Place = str | os.PathLike[str] | IO[Any]


async def export(
    store: Store, to: Place, chosen: LetterFilter, *, by: str, reason: str | None, progress: Heard
) -> dict[str, Any]:
    """Write letters to a new file, or to an open one, newest first; return how many. The audit records it first."""
    actor = checked_actor(by, reason or "export")
    wanted = {name: str(value) for name, value in chosen.items()}
    letter_filter(chosen, store.now(), 1)  # a wrong filter is reported before a file is created
    done = 0
    with _opened(to) as (file, name):
        await store.write(audit.note, Decision(kind="export", outcome="exported", detail={"filter": wanted}, **actor))
        async for records in _bites(store, chosen):
            await run_in_thread(_write, file, [line(record, now=store.now(), skew=store.skew()) for record in records])
            done += len(records)
            progress(Progress("exported", done, None))
    return {"path": name, "letters": done}


async def _bites(store: Store, chosen: LetterFilter) -> AsyncIterator[list[JobRecord]]:
    wanted = letter_filter(chosen, store.now(), BITE, skew=store.skew())
    while records := await store.read(reads.letters(wanted)):
        yield records
        wanted = wanted._replace(before=records[-1].row.n)


def line(record: JobRecord, *, now: float, skew: float) -> bytes:
    """Return a letter's line: the letter as a person sees it, and what only its store knows."""
    row = record.row
    details = msgspec.json.decode(row.details, type=Details)
    shown = msgspec.to_builtins(job_view(record, now=now, skew=skew), builtin_types=())
    ledger = [msgspec.structs.replace(entry, at=entry.at + skew) for entry in record.effects]  # wall time, as all else
    looks = [look._replace(at=look.at + skew) for look in record.looks]
    own = {"payload": msgspec.Raw(row.payload.encode()), "collected": details.collected}
    own |= {"ledger": ledger, "looks": looks, "details": msgspec.Raw(row.details.encode())}
    if row.failure is not None:  # as it is stored: the advice depends on where it is read
        own["failure"] = {**msgspec.json.decode(row.failure), "traceback": shown["failure"]["traceback"]}
    return msgspec.json.encode({"format": FORMAT, **shown, **own, "own_risk": details.risk}) + b"\n"


@contextmanager
def _opened(to: Place) -> Iterator[tuple[IO[Any], str | None]]:
    """Create a new file that only its owner may read, or use the given one."""
    if not isinstance(to, str | os.PathLike):
        yield to, getattr(to, "name", None)
        return
    with os.fdopen(_new_file(Path(to)), "wb") as file:
        yield file, str(to)


def _new_file(path: Path) -> int:
    try:
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise ConfigurationError(f"{path} already exists, and nothing was overwritten; name another file") from None
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error}; name another file") from error


def _write(file: Any, lines: list[bytes]) -> None:
    written = b"".join(lines)
    takes_text = isinstance(file, TextIOBase)
    file.write(written.decode() if takes_text else written)
