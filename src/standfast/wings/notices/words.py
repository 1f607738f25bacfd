"""Notices: what was committed, in commit order, from every process, resumable by number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from standfast.errors import ConfigurationError
from standfast.lifecycle import ABOUT, NoticeKind
from standfast.wings.notices.scripts import JournalRow

TYPES = "dev.standfast."
"""Prefix of the types of our CloudEvents; the rest is the notice's kind."""

_PLACES = 20
"""Bits of a notice's number for its place in its transaction; the bits above are the number of the journal row."""
Entry = tuple[str, str, list[str]]
"""One transaction's notices of one kind about one queue: the kind, the queue, and the ids of the jobs."""
Fits = Callable[[str, str], bool]
"""Says whether notices of a kind about a queue are wanted."""
RetryData = dict[str, dict[str, Any]]
"""By job, the data of a retry notice: which attempt failed, why, and when the next one is due."""
entries = msgspec.json.Decoder(list[Entry]).decode


class Notice(NamedTuple):
    """Something that happened to a job, or to a queue (`job` is None). Pass `seq` as `after` to continue after it.

    A `gap` says that notices between the last one and the next were pruned before they were read; every reader gets it.
    """

    seq: int
    kind: str
    at: datetime
    job: str | None
    queue: str
    data: dict[str, Any]


class NoticeFilter(NamedTuple):
    """Which notices a reader wants; None is all of them."""

    kinds: frozenset[str] | None = None
    queues: frozenset[str] | None = None

    def fits(self, kind: str, queue: str) -> bool:
        """Return whether notices of a kind about a queue are wanted."""
        return (self.kinds is None or kind in self.kinds) and (self.queues is None or queue in self.queues)


def checked_kinds(kinds: Collection[str] | None) -> frozenset[str] | None:
    """Refuse a kind that no notice ever has."""
    unknown = sorted(set(kinds or ()) - set(NoticeKind))
    if unknown:
        raise ConfigurationError(f"unknown notice {unknown[0]!r}; known are {', '.join(NoticeKind)}")
    return None if kinds is None else frozenset(kinds)


def row_of(seq: int) -> int:
    """Return the number of the transaction that a notice belongs to."""
    return seq >> _PLACES


def end_of(row: int) -> int:
    """Return the number after all notices of a transaction, and before those of the next."""
    return ((row + 1) << _PLACES) - 1


def notices_of(row: JournalRow, skew: float, fits: Fits, retries: RetryData | None = None) -> Iterator[Notice]:
    """Return the wanted notices of one transaction."""
    return lay_out(row.seq, datetime.fromtimestamp(row.at + skew, UTC), entries(row.entries), fits, retries)


def lay_out(
    row: int, at: datetime, told_: Sequence[Entry], fits: Fits, retries: RetryData | None = None
) -> Iterator[Notice]:
    """Yield the wanted notices of one transaction, one by one: there may be many, of which few are wanted."""
    seq, last = row << _PLACES, end_of(row)
    for kind, queue, ids in told_:
        if fits(kind, queue):
            whose = next((name for about, name in ABOUT.items() if kind.startswith(about)), None)
            for place, id_ in enumerate(ids, seq):
                job, data = (id_ or None, {}) if whose is None else (None, {whose: id_})
                if kind == NoticeKind.RETRY and retries:
                    data = retries.get(id_, {})
                # Rows are split long before this; one that was not does not run into the next.
                yield Notice(min(place, last), kind, at, job, queue, data)
        seq += len(ids)


def gap(known: int, next_row: int, at: datetime) -> Notice:
    """Report that the transactions between the last known one and the next one are no longer kept."""
    oldest = end_of(next_row - 1)
    return Notice(
        oldest, NoticeKind.GAP.value, at, None, "", {"transactions": next_row - known - 1, "oldest": oldest + 1}
    )


def cloud_event(notice: Notice, source: str) -> dict[str, Any]:
    """Build a CloudEvents 1.0 event from a notice: its number is the id, its job or topic the subject."""
    about = notice.job or next(iter(notice.data.values()), None)
    subject = {"subject": about} if isinstance(about, str) else {}
    return {
        "specversion": "1.0",
        "id": str(notice.seq),
        "source": source,
        "type": f"{TYPES}{notice.kind}",
        "time": notice.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        **subject,
        "datacontenttype": "application/json",
        "data": {"kind": notice.kind, "job": notice.job, "queue": notice.queue or None, **notice.data},
    }
