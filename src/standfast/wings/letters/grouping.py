"""Letters that stopped for the same cause are one group: one decision for hundreds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from standfast.failure import Failure


class SeenLetter(msgspec.Struct, frozen=True, kw_only=True):
    """One letter: why it stopped, when, and what came before. Times are queue time."""

    fingerprint: str
    id: str
    queue: str
    handler: str
    failure: Failure
    at: float
    replays: int = 0
    again: bool = False
    """Whether it stopped for the same cause as before a replay."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Letters of one fingerprint. `sample` is the newest; `replayed` and `regressed` count letters."""

    fingerprint: str
    queue: str
    handler: str
    failure: Failure
    sample: str
    first_seen: float
    last_seen: float
    count: int = 1
    replayed: int = 0
    regressed: int = 0


def add(groups: dict[str, Group], seen: Iterable[SeenLetter]) -> None:
    """Add letters to their groups."""
    for each in seen:
        known = groups.get(each.fingerprint)
        groups[each.fingerprint] = _first(each) if known is None else _joined(known, each)


def _first(seen: SeenLetter) -> Group:
    return Group(
        fingerprint=seen.fingerprint,
        queue=seen.queue,
        handler=seen.handler,
        failure=seen.failure,
        sample=seen.id,
        first_seen=seen.at,
        last_seen=seen.at,
        replayed=int(seen.replays > 0),
        regressed=int(seen.again),
    )


def _joined(group: Group, seen: SeenLetter) -> Group:
    newest = {"sample": seen.id, "failure": seen.failure} if seen.at > group.last_seen else {}
    return msgspec.structs.replace(
        group,
        count=group.count + 1,
        first_seen=min(group.first_seen, seen.at),
        last_seen=max(group.last_seen, seen.at),
        replayed=group.replayed + int(seen.replays > 0),
        regressed=group.regressed + int(seen.again),
        **newest,
    )


def died_again(causes: Sequence[str | None]) -> bool:
    """Return whether the last round ended like an earlier one, by the attempts' causes; None marks a replay."""
    ends: list[str | None] = [None]
    for cause in causes:
        if cause is None:
            ends.append(None)
        else:
            ends[-1] = cause
    return ends[-1] is not None and ends[-1] in ends[:-1]
