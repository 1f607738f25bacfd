"""Groups of letters with the same cause, read in batches: the cost grows with the letters, not with the jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from standfast.failure import Class, Failure, Landed
from standfast.failure.fingerprint import fingerprint
from standfast.store.store import Store
from standfast.typed.letter_options import LetterFilter
from standfast.wings.letters import scripts as letters
from standfast.wings.letters.grouping import Group, SeenLetter, add, died_again
from standfast.wings.letters.scripts import Mark
from standfast.wings.records.letter_filter import letter_filter
from standfast.wings.records.view import moments

BITE = 1000
"""How many letters are read at once."""
STOPPED = Failure(cls=Class.UNKNOWN, landed=Landed.MAYBE, reason_code="unknown")
"""Stands for a missing failure."""

_failure = msgspec.json.Decoder(Failure).decode


class _Line(msgspec.Struct):
    """The fields of a history line that count here."""

    cls: str | None = msgspec.field(name="class", default=None)
    landed: str | None = None
    reason_code: str = ""
    error_kind: str | None = None
    message: str | None = None


_line = msgspec.json.Decoder(_Line).decode


async def groups(store: Store, chosen: LetterFilter) -> list[dict[str, Any]]:
    """Group letters by fingerprint, the largest group first. A letter without a fingerprint gets one."""
    found: dict[str, Group] = {}
    wanted = letter_filter(chosen, store.now(), BITE, skew=store.skew())
    while True:
        marks, lines, following = await store.read(letters.walk(wanted))
        seen = [_sighting(mark, lines.get(mark.n, ())) for mark in marks]
        add(found, seen)
        await _stamp(store, marks, seen)
        if following is None:
            break
        wanted = wanted._replace(before=following)
    largest_first = sorted(found.values(), key=lambda group: (-group.count, -group.last_seen))
    return [_display(group, store.skew()) for group in largest_first]


async def _stamp(store: Store, marks: Sequence[Mark], seen: Sequence[SeenLetter]) -> None:
    """Store the fingerprints that had to be computed, so that people who see a group can filter by it."""
    bare = [
        (mark.n, mark.token, each.fingerprint)
        for mark, each in zip(marks, seen, strict=True)
        if mark.fingerprint is None
    ]
    if bare:
        await store.write_all(letters.stamp, bare)


def _sighting(mark: Mark, lines: Sequence[str]) -> SeenLetter:
    failure = STOPPED if mark.failure is None else _failure(mark.failure)
    return SeenLetter(
        fingerprint=mark.fingerprint or fingerprint(mark.queue, mark.handler, failure),
        id=mark.id,
        queue=mark.queue,
        handler=mark.handler,
        failure=failure,
        at=mark.finished_at,
        replays=mark.replays,
        again=died_again(_causes(mark, lines)),
    )


def _causes(mark: Mark, lines: Sequence[str]) -> list[str | None]:
    """Return the causes of a letter's attempts in order, with None where a replay began; skip other lines."""
    found: list[str | None] = []
    for entry in map(_line, lines):
        if entry.cls is not None:
            found.append(fingerprint(mark.queue, mark.handler, _failed(entry)))
        elif entry.reason_code == "replayed":
            found.append(None)
    return found


def _failed(line: _Line) -> Failure:
    return Failure(
        cls=Class(line.cls or Class.UNKNOWN),
        landed=Landed(line.landed or Landed.MAYBE),
        reason_code=line.reason_code,
        error_kind=line.error_kind,
        message=line.message or "",
    )


def _display(group: Group, skew: float) -> dict[str, Any]:
    failure, moment = group.failure, moments(skew)
    return {
        "fingerprint": group.fingerprint,
        "count": group.count,
        "queue": group.queue,
        "handler": group.handler,
        "reason_code": failure.reason_code,
        "cause": failure.cause,
        "class": str(failure.cls),
        "error_kind": failure.error_kind,
        "message": failure.message,
        "first_seen": moment(group.first_seen),
        "last_seen": moment(group.last_seen),
        "sample": group.sample,
        "replayed": group.replayed,
        "regressed": group.regressed,
    }
