"""Moves a live SQLite store to PostgreSQL: copied ahead while it is in use, frozen for a moment, compared, closed.

Whatever happens on the way, exactly one of the two is the store: the old one until its last transaction says where the
store has gone, the new one from then on. After an interruption, the same command starts again or finishes the rest.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from standfast.errors import ConfigurationError, StoreUnavailable
from standfast.settings import without_password
from standfast.store.job_tables import KEYS, Row, Table
from standfast.store.places import MEMORY, sqlite_path
from standfast.store.sqlite.source import Source
from standfast.views import Heard, Progress
from standfast.wings.promote import tables as promotion
from standfast.wings.promote.comparison import AT_ONCE, Comparison, check, span
from standfast.wings.promote.tables import AUDIT, JOURNAL, WHOLE, digest, shifted

if TYPE_CHECKING:
    from standfast.store.postgres.target import Target

MOST_BITES = 1000
"""Bites of changes that are copied ahead; if changes come faster than that, the freeze finds out."""
WAIT = 60.0
PAUSE = 0.05


def promote(
    source_url: str, target_url: str, *, wait: float = WAIT, progress: Heard = lambda _step: None
) -> dict[str, Any]:
    """Move a store; return an account of what was moved. Running jobs get `wait` seconds to end."""
    path = sqlite_path(source_url)
    if path == MEMORY:
        raise ConfigurationError("a store in memory cannot be promoted; promote a file")
    with closing(Source(path)) as source, closing(open_target(target_url)) as target:
        return Promotion(source, target, without_password(target_url), progress).run(wait)


class Promotion:
    """One attempt to move a store."""

    def __init__(self, source: Source, target: Target, home: str, progress: Heard) -> None:
        self._source = source
        self._target = target
        self._home = home
        self._progress = progress
        self._by = target.now() - source.now()
        """What is added to times of the source."""
        self._done = self._total = 0
        self._comparison = Comparison(source, target, self._by)
        self._ends = {"journal": 0, "audit": -1}
        """How far the append-only tables are copied and compared: links are numbered from 0."""

    def run(self, wait: float) -> dict[str, Any]:
        """Move the store, or finish what an earlier attempt left to do."""
        left = self._source.mark()
        if left is not None and left.state == "moved":
            return self._end(left.source, left.home)
        name = self._source.begin(self._home).source
        with ExitStack() as failed:
            failed.callback(self._source.give_up)
            self._target.begin(name)
            self._tell("begun")
            self._copy_ahead()
            account = self._freeze(name, wait)
            failed.pop_all()
        return self._open(name, account)

    def _tell(self, what: str) -> None:
        self._progress(Progress(what, self._done, self._total))

    # --- ahead

    def _copy_ahead(self) -> None:
        """Copy everything once, then what changed meanwhile, until little is left; compare it."""
        self._total, last = self._source.extent()
        for block in range(last // promotion.BLOCK + 1):
            self._copy_block(block)
        self._copy_keys()
        self._copy_what_grows()
        for _ in range(MOST_BITES):
            if self._copy_changes() < AT_ONCE:
                break
        for block in range(last // promotion.BLOCK + 1):
            self._comparison.block(block)
            self._copy_changes()
            self._tell("compared")
        self._target.measure()

    def _copy_block(self, block: int) -> None:
        first, last = span(block)
        jobs = shifted(self._source.jobs(first, last), self._by)
        self._target.replace_jobs(range(first, last + 1), jobs)
        self._done += len(jobs["job"])
        self._copy_changes()
        self._tell("copied")

    def _copy_keys(self) -> None:
        after: Row = ("", "")
        while rows := self._source.keys(after, AT_ONCE):
            after = rows[-1][:2]
            self._target.replace_keys([row[:2] for row in rows], KEYS.shifted(rows, self._by))
            self._copy_changes()
            self._tell("keys")

    def _copy_what_grows(self) -> None:
        for _ in self._copy_tail(JOURNAL):
            self._tell("journal")
        for _ in self._copy_tail(AUDIT):
            pass  # decisions are few compared with notices

    def _copy_tail(self, table: Table) -> Iterator[None]:
        """Copy and compare the rows after the last one copied, bite by bite."""
        while rows := self._source.appended(table, self._ends[table.name], AT_ONCE):
            moved = table.shifted(rows, self._by)
            self._target.append(table, moved)
            copied = self._target.appended(table, self._ends[table.name], AT_ONCE)
            check(f"the rows of {table.name}", digest(moved), digest(copied))
            self._ends[table.name] = rows[-1][0]
            yield

    def _copy_changes(self, *, claims: bool = True) -> int:
        """Copy what changed since it was copied; return how much that was."""
        return self._apply(*self._source.changes(AT_ONCE, claims=claims))

    def _apply(self, numbers: list[int], jobs: Any, keys: list[Row], rows: list[Row]) -> int:
        if numbers:
            self._target.replace_jobs(numbers, shifted(jobs, self._by))
        if keys:
            self._target.replace_keys(keys, KEYS.shifted(rows, self._by))
        self._comparison.forget(numbers)
        return len(numbers) + len(keys)

    # --- frozen

    def _freeze(self, name: str, wait: float) -> dict[str, Any]:
        """Stop new starts, and move once the running jobs have ended or lapsed."""
        give_up = time.monotonic() + wait
        while True:
            changes = self._copy_changes(claims=False)
            self._copy_what_grows()
            self._tell("stopped")
            began = time.monotonic()
            with self._source.last_transaction():
                running = self._source.running()
                if not running and changes < AT_ONCE:
                    return self._move(name, began)
            if time.monotonic() > give_up:
                why = f"{running} jobs still run" if running else "more changes than can be copied still come"
                raise StoreUnavailable(
                    f"{why} after {wait:g} s; nothing was moved, and the old store stays in use: stop its workers "
                    "first, or give promote a longer --wait",
                    definite=True,
                )
            if changes < AT_ONCE:
                time.sleep(PAUSE)

    def _move(self, name: str, began: float) -> dict[str, Any]:
        """Copy the tail, compare everything, and close the old store in its last transaction."""
        self._tell("frozen")
        while self._apply(*self._source.take_changes(AT_ONCE)):
            pass
        self._copy_what_grows()
        self._target.set_ends(*self._source.ends(), self._target.now())
        for table in WHOLE:
            self._target.replace_whole(table, table.shifted(self._source.whole_table(table), self._by))
        self._tell("tail")
        account = {"to": self._home} | self._comparison.everything()
        self._tell("compared")
        account["frozen"] = round(time.monotonic() - began, 3)
        self._target.ready(name, account)
        self._tell("ready")
        self._source.close_for_good()
        self._tell("closing")
        return account

    # --- after

    def _open(self, name: str, account: dict[str, Any] | None) -> dict[str, Any]:
        self._tell("moved")
        self._target.open_to_all(name, account)
        self._tell("live")
        return account or {}

    def _end(self, name: str, home: str) -> dict[str, Any]:
        """Finish a promotion that was interrupted after the old store's last transaction."""
        mark = self._target.mark()
        if mark is None or mark.source != name or mark.state == "copying":
            raise ConfigurationError(f"this store has already moved to {home}, not to {self._home}")
        return self._open(name, mark.account) if mark.state == "ready" else mark.account or {}


def open_target(url: str) -> Target:
    """Open the target store; PostgreSQL's driver is an extra."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise ConfigurationError("a store is only promoted to postgresql://…")
    try:
        from standfast.store.postgres.target import Target  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise ConfigurationError("postgresql:// needs an extra: pip install 'standfast[postgres]'") from error
    return Target(url)
