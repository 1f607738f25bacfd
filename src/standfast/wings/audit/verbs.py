"""The audit chain for people and programs: read it, verify it, export it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from standfast.concurrency.threads import run_in_thread
from standfast.errors import ConfigurationError, StandfastError
from standfast.spine.ids import JobId, id_of
from standfast.store.store import Store
from standfast.wings.audit import anchor
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.rules import UNBEGUN, Problem, Walk, compare, first, follow, judge, late_beginning, misfit
from standfast.wings.audit.words import KINDS, Head, Link, decisions_of
from standfast.wings.records.view import one_of

AT_ONCE = 500
"""Links that are read at once: a chain may be long, and other processes go on writing."""


class Decisions(list[dict[str, Any]]):
    """Decisions, oldest first. `next_after` leads to the next ones; it is None if there are none.

    `since` is the time of the first link that was looked at, if earlier ones were left out.
    """

    next_after: int | None = None
    since: datetime | None = None


class Audit:
    """Every decision that acted, in one chain: `entries`, `verify`, `export`. Reading it changes nothing."""

    def __init__(self, store: Store, ready: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._ready = ready

    async def entries(
        self, *, after: int = 0, limit: int = 50, job: JobId = None, kind: str | None = None
    ) -> Decisions:
        """List decisions, oldest first, each with the `seq` and the time of its link; `after` continues after a `seq`.

        The decisions of one transaction stay together: a page may be shorter than `limit`, and longer if one
        transaction made more. Its `next_after` is where the next page begins.
        """
        await self._ready()
        _check_page(after, limit)
        one_of("kind", kind, KINDS)
        found, about = Decisions(), None if job is None else id_of(job)
        async for links in self._links(after, about, kind):
            for link in links:
                wanted = [entry for entry in _entries(link) if _is(entry, about, kind)]
                if found and len(found) + len(wanted) > limit:
                    found.next_after = found[-1]["seq"]
                    return found
                found += wanted
        return found

    async def last(
        self, number: int, *, job: JobId = None, kind: str | None = None, within: int | None = None
    ) -> Decisions:
        """List this many of the last decisions, oldest first; with `within`, look only at so many of the last links."""
        await self._ready()
        _check_page(0, number)
        about = None if job is None else id_of(job)
        head = await self._store.read(audit.peek())
        end = 0 if head is None else head.head.seq
        most, reach = end if within is None else min(end, within), max(number, AT_ONCE)
        while True:
            after = end - min(reach, most)
            found = [entry async for links in self._links(after, about, kind) for entry in _all(links)]
            wanted = [entry for entry in found if _is(entry, about, kind)]
            if len(wanted) >= number or reach >= most:
                return await self._last(wanted[-number:], after if len(wanted) < number else 0)
            reach *= 4

    async def _last(self, found: list[dict[str, Any]], left_out: int) -> Decisions:
        """Return decisions, with the time from which on there are no others, if the first links were left out."""
        decisions = Decisions(found)
        if left_out:
            [link] = await self._store.read(audit.links(left_out, 1))
            decisions.since = datetime.fromisoformat(link.at)
        return decisions

    async def _links(self, after: int, job: str | None = None, kind: str | None = None) -> AsyncIterator[list[Link]]:
        """Read the links after a number, in bites."""
        while links := await self._store.read(audit.links(after, AT_ONCE, job, kind)):
            yield links
            after = links[-1].seq

    async def verify(self) -> dict[str, Any]:
        """Return whether the chain is what was written: `{"ok", "entries", "head", "anchored", "problem"?}`.

        `head` is the last link's hash, `anchored` the number of the last link noted outside (None if there is none),
        and `anchored_from` that of the first. A `problem` names the first link, by its `seq`, that was changed,
        removed, moved or cut off, or that should have been noted outside and was not. `begins_late` is there if heads
        are noted outside, but not from the beginning, and says what that leaves open.
        """
        await self._ready()
        path = self._store.anchor.path
        noted_so_far = anchor.size(path)  # first: later notes may be of links after the end of the walk
        walk, store, noted = await self._walk()
        begins, last, outside = await self._compare_anchors(path, noted_so_far, noted)
        misfits = [misfit(*each) for each in (anchor.bad_lines(path, noted_so_far) if path and noted_so_far else ())]
        problem = first((judge(walk, store, noted), outside, *misfits))
        head = None if walk.head == UNBEGUN else walk.head.hash
        anchored = {"anchored": last, "anchored_from": begins}
        answer = {"ok": problem is None, "entries": walk.entries, "head": head, **anchored}
        late = late_beginning(walk.head, begins, noted=path is not None)
        answer |= {} if late is None else {"begins_late": late}
        return answer if problem is None else {**answer, "problem": msgspec.to_builtins(problem)}

    async def _walk(self) -> tuple[Walk, str | None, Head]:
        """Read the store's own head, then follow the chain to its end; other processes may add links meanwhile."""
        walk, before = Walk(), None
        while True:
            peeked = await self._store.read(audit.peek())
            store, noted = (None, UNBEGUN) if peeked is None else (peeked.store, peeked.head)
            async for links in self._links(walk.head.seq):
                walk = follow(walk, links)
                if walk.problem is not None:
                    break
            if walk.problem is not None or walk.head.seq <= noted.seq or noted == before:
                return walk, store, noted
            before = noted  # there are more links than the head says: see whether they are just being written

    async def _compare_anchors(
        self, path: str | None, upto: int, noted: Head
    ) -> tuple[int | None, int | None, Problem | None]:
        """Compare the heads noted outside; return the first and last number there, and the first that differs."""
        ends: set[int] = set()
        problems: list[Problem | None] = []
        for heads in anchor.read_heads(path, upto) if path and upto else ():
            numbers = [head.seq for head in heads]
            problems.append(compare(noted, heads, await self._store.read(audit.hashes(numbers))))
            ends = {min(ends | {*numbers}), max(ends | {*numbers})}
        return min(ends, default=None), max(ends, default=None), first(problems)

    async def export(self, path: str | Path) -> dict[str, Any]:
        """Write the chain to a new file, one link per line, with its first; return how many links and where it ends.

        A broken chain is written as it is; `ok` is False then, and `problem` says where.
        """
        await self._ready()
        links, head, walk = 0, None, Walk()
        with os.fdopen(_new_file(path), "wb") as file:
            async for some in self._links(-1):
                await run_in_thread(file.write, _lines(some))
                links, head = links + len(some), some[-1].hash
                walk = walk if walk.problem is not None else follow(walk, some)
        answer = {"path": str(path), "links": links, "head": head, "ok": walk.problem is None}
        return answer if walk.problem is None else {**answer, "problem": msgspec.to_builtins(walk.problem)}


def _check_page(after: int, limit: int) -> None:
    for name, value, least in (("after", after, 0), ("limit", limit, 1)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ConfigurationError(f"{name} must be a whole number from {least}, not {value!r}")


def _entries(link: Link) -> list[dict[str, Any]]:
    decisions = decisions_of(link)
    if decisions is None:
        raise StandfastError(f"link {link.seq} of the audit chain was changed and cannot be read; see audit verify")
    shown = ({name: value for name, value in entry.items() if name != "noted_in"} for entry in decisions)
    return [{"seq": link.seq, "at": link.at, **entry} for entry in shown]


def _all(links: Sequence[Link]) -> Iterator[dict[str, Any]]:
    return (entry for link in links for entry in _entries(link))


def _is(entry: dict[str, Any], job: str | None, kind: str | None) -> bool:
    return job in (None, entry.get("job")) and kind in (None, entry.get("kind"))


def _new_file(path: str | Path) -> int:
    try:
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise ConfigurationError(f"{path} already exists, and nothing was overwritten; name another file") from None
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error}; name another file") from error


def _lines(links: Sequence[Link]) -> bytes:
    """Write links as JSON lines; `entries` are written exactly as they were hashed."""
    raw = ({**link._asdict(), "entries": msgspec.Raw(link.entries.encode())} for link in links)
    return b"".join(msgspec.json.encode(line) + b"\n" for line in raw)
