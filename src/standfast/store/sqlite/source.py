"""The store that a promotion leaves: read in short snapshots while it is in use, closed in one last transaction."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw

from standfast.clock import Clock, SystemClock
from standfast.errors import ConfigurationError, StoreUnavailable
from standfast.store.job_tables import BY_NUMBER, KEYS, Jobs, Row, Rows, Table
from standfast.store.sqlite import promotion_mark
from standfast.store.sqlite.files import Files
from standfast.store.sqlite.handle import let_go, rolled_back_on_failure
from standfast.store.sqlite.neighbours import begin
from standfast.store.sqlite.promotion_mark import PromotionMark

HEARD_OF_WITHIN = 60.0
"""Seconds after which a promotion that has not reported counts as interrupted."""
NO_CLAIMS_FOR = 10.0
"""Seconds for which no job is started, from each time the promotion asks for that."""
PATIENCE = 30.0
"""Seconds to wait for the write lock."""

LIVE = """
SELECT count(*) FROM job AS j JOIN worker AS w ON w.id = j.worker
WHERE j.state = 'running' AND w.boot = ? AND max(w.beat_at, j.claimed_at) + j.lease >= ?
"""
"""Counts running jobs. A job whose lease has lapsed moves as it is: the sweeper of the new store decides about it."""


class Source:
    """A database file, opened for its promotion."""

    def __init__(self, path: str, clock: Clock | None = None) -> None:
        if not Path(path).is_file():
            raise ConfigurationError(f"there is no store {path} to promote")
        self.path = str(Path(path).resolve())
        self._clock = clock or SystemClock()
        self._files = Files(self.path)
        self._connection = self._files.open()
        self._offset = self._files.set_clock(self._connection, self._clock)
        self._run = uuid4().hex

    def close(self) -> None:
        """Close the file."""
        self._files.close(None)
        let_go(self._connection)

    def now(self) -> float:
        """Return the present queue time."""
        return self._clock.elapsed() + self._offset

    # --- the promotion's mark

    def mark(self) -> PromotionMark | None:
        """Read the mark that an earlier promotion left."""
        with self._snapshot():
            return promotion_mark.look(self._connection)

    def begin(self, home: str) -> PromotionMark:
        """Set the mark, and record changes from now on."""
        with self._writing():
            known = promotion_mark.look(self._connection)
            promotion_mark.forget(self._connection)
            source = known.source if known else uuid4().hex
            mark = PromotionMark(source, self._run, "copying", home, self.now() + HEARD_OF_WITHIN, 0.0)
            promotion_mark.write(self._connection, mark)
            promotion_mark.note_changes(self._connection)
        return mark

    def give_up(self) -> None:
        """Undo the promotion's changes: the store continues as if nothing had happened."""
        with self._writing():
            found = promotion_mark.look(self._connection)
            if found is not None and found.run == self._run and found.state == "copying":
                promotion_mark.forget(self._connection)
                promotion_mark.write(
                    self._connection, found._replace(state="given_up", until=9e99, no_claims_until=0.0)
                )

    def _say(self, *, claims: bool) -> None:
        """Report that the promotion is alive; find out if another promotion or a timeout has removed the mark."""
        promotion_mark.check_usable(self._connection)
        found = promotion_mark.look(self._connection)
        if found is None or found.run != self._run or found.state != "copying":
            raise StoreUnavailable(
                f"the promotion of {self.path} was interrupted: it did not report for {HEARD_OF_WITHIN:.0f} s, or "
                "another one began; the old store stays in use: run promote again",
                definite=True,
            )
        until = self.now() + NO_CLAIMS_FOR if not claims else 0.0
        promotion_mark.write(
            self._connection, found._replace(until=self.now() + HEARD_OF_WITHIN, no_claims_until=until)
        )

    # --- reading

    def extent(self) -> tuple[int, int]:
        """Count the jobs, and return the highest number that any job had."""
        with self._snapshot():
            [(jobs,)] = self._connection.execute("SELECT count(*) FROM job")
            return jobs, self._sequence("body")

    def jobs(self, first: int, last: int) -> Jobs:
        """Read the jobs of a range of numbers, including both ends."""
        with self._snapshot():
            return {
                table.name: self._rows(
                    f"{table.select} {table.name} WHERE n BETWEEN ? AND ? ORDER BY {_order(table)}", (first, last)
                )
                for table in BY_NUMBER
            }

    def changes(self, limit: int, *, claims: bool) -> tuple[list[int], Jobs, Rows, Rows]:
        """Take changed jobs and keys off the lists and read them: numbers, jobs, changed keys, and their rows."""
        with self._writing():
            self._say(claims=claims)
            return self.take_changes(limit)

    def take_changes(self, limit: int) -> tuple[list[int], Jobs, Rows, Rows]:
        """Do the same inside an open transaction."""
        numbers = [n for (n,) in self._rows("SELECT n FROM changed_job LIMIT ?", (limit,))]
        jobs = {table.name: self._of_numbers(table, numbers) for table in BY_NUMBER}
        self._connection.executemany("DELETE FROM changed_job WHERE n = ?", [(n,) for n in numbers])
        keys = self._rows("SELECT queue, key FROM changed_key LIMIT ?", (limit,))
        found = [
            row for key in keys for row in self._rows(f"{KEYS.select} idempotency WHERE queue = ? AND key = ?", key)
        ]
        self._connection.executemany("DELETE FROM changed_key WHERE queue = ? AND key = ?", keys)
        return numbers, jobs, keys, found

    def _of_numbers(self, table: Table, numbers: list[int]) -> Rows:
        among = ",".join(map(str, numbers))
        return self._rows(f"{table.select} {table.name} WHERE n IN ({among}) ORDER BY {_order(table)}", ())

    def keys(self, after: Row, limit: int) -> Rows:
        """Read the keys after a given one, in order."""
        sql = f"{KEYS.select} idempotency WHERE (queue, key) > (?, ?) ORDER BY queue, key LIMIT ?"
        with self._snapshot():
            return self._rows(sql, (*after, limit))

    def appended(self, table: Table, after: int, limit: int) -> Rows:
        """Read an append-only table after a given number."""
        with self._snapshot():
            return self._rows(f"{table.select} {table.name} WHERE seq > ? ORDER BY seq LIMIT ?", (after, limit))

    def whole_table(self, table: Table) -> Rows:
        """Read a small table in the order of its key."""
        with self._snapshot():
            return self._rows(f"{table.select} {table.source or table.name} ORDER BY {_order(table)}", ())

    def ends(self) -> tuple[int, int, int]:
        """Return the highest job number so far, the oldest journal number, and the highest journal number so far."""
        with self._snapshot():
            [(oldest,)] = self._connection.execute("SELECT coalesce(min(seq), 0) FROM journal")
            return self._sequence("body"), oldest, self._sequence("journal")

    def counts(self) -> dict[str, int]:
        """Count the jobs in each state."""
        with self._snapshot():
            return dict(self._rows("SELECT state, count(*) FROM job GROUP BY state", ()))

    def running(self) -> int:
        """Count the running jobs."""
        with self._snapshot():
            [(number,)] = self._connection.execute(LIVE, (self._clock.boot(), self.now()))
            return int(number)

    def _sequence(self, table: str) -> int:
        found = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        return int(found[0]) if found else 0

    def _rows(self, sql: str, parameters: Row) -> Rows:
        return self._connection.execute(sql, parameters).fetchall()

    # --- transactions

    @contextmanager
    def last_transaction(self) -> Iterator[None]:
        """Lock out every other writer. If `close_for_good` is called in it, it is the last; else it has only looked."""
        with self._writing():
            self._say(claims=False)
            yield

    def close_for_good(self) -> None:
        """Record where the store has gone."""
        mark = promotion_mark.look(self._connection)
        if mark is not None:
            promotion_mark.close_for_good(self._connection, mark)

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        with self._explaining():
            if self._connection.in_transaction:  # a part of the last transaction
                yield
                return
            self._connection.execute("BEGIN")
            with rolled_back_on_failure(self._connection):
                yield
                self._connection.execute("COMMIT")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._explaining():
            self._begin(time.monotonic() + PATIENCE)
            with rolled_back_on_failure(self._connection):
                yield
                self._connection.execute("COMMIT")

    def _begin(self, until: float) -> None:
        while True:
            try:
                return begin(self._connection, self._files.baton)
            except apsw.BusyError:
                if time.monotonic() > until:
                    raise

    @contextmanager
    def _explaining(self) -> Iterator[Any]:
        try:
            yield
        except apsw.Error as error:
            raise StoreUnavailable(
                f"cannot go on with {self.path}: {error}; run promote again: it continues where it stopped",
                definite=True,
            ) from error


def _order(table: Table) -> str:
    return ", ".join(table.key)
