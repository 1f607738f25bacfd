"""The store that a promotion fills. Until it is complete, only the promotion writes to it, even if others have it open.

A mark says whose promotion it is and how far it got, so that the same one can start again, and no other can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
import psycopg

from standfast.errors import ConfigurationError, StoreUnavailable
from standfast.store.job_tables import BY_NUMBER, KEYS, Jobs, Row, Rows, Table
from standfast.store.postgres.address import Address
from standfast.store.postgres.connection import Connection, connect, opening, rolled_back_on_failure
from standfast.store.postgres.server_schema import migrate

OURS = "SET LOCAL standfast.promoting TO 'yes'"
MARK = "CREATE TABLE IF NOT EXISTS promotion (source text NOT NULL, state text NOT NULL, account text)"
GUARD = """
CREATE OR REPLACE FUNCTION only_promotion() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF coalesce(current_setting('standfast.promoting', true), '') <> 'yes' THEN
    RAISE EXCEPTION 'standfast promote is filling this store and has not finished; run it again if it was interrupted'
      USING ERRCODE = 'cannot_connect_now';
  END IF;
  RETURN NULL;
END $$
"""
"""Refuses all other writers, with an error that lets them try again until their deadlines."""

COUNTING = ("job_count_inserted", "job_count_updated", "job_count_deleted")
"""The triggers that count the jobs that are more than plain."""


class Mark(NamedTuple):
    """Whose promotion this is (the source's name), how far it got (`copying`, `ready`, `live`), and its account."""

    source: str
    state: str
    account: dict[str, Any] | None


class Target:
    """A schema on a PostgreSQL server, opened in order to fill it."""

    def __init__(self, url: str) -> None:
        self._address = Address.read(url)
        self._opening = f"{opening(self._address)}; {OURS}"
        with self._explaining():
            self._connection: Connection = connect(self._address)
            migrate(self._connection, self._address)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def now(self) -> float:
        """Return the server's time."""
        with self._transaction():
            [(now,)] = self._rows("SELECT extract(epoch FROM clock_timestamp())::double precision")
        return float(now)

    # --- the promotion's mark

    def mark(self) -> Mark | None:
        """Read the mark that an earlier promotion left."""
        with self._transaction():
            return self._mark()

    def _mark(self) -> Mark | None:
        [(exists,)] = self._rows("SELECT to_regclass('promotion') IS NOT NULL")
        found = self._rows("SELECT source, state, account FROM promotion") if exists else []
        return Mark(found[0][0], found[0][1], found[0][2] and msgspec.json.decode(found[0][2])) if found else None

    def begin(self, source: str) -> None:
        """Take an empty store, or start over with one that this source had partly filled."""
        with self._transaction():
            known = self._mark()
            if known is not None and (known.source != source or known.state == "live"):
                raise ConfigurationError(f"{self._address} holds another promoted store; name an empty schema")
            tables = self._tables()
            self._close_to_others(tables)
            if known is None:
                self._check_empty(tables)
            self._run(f"TRUNCATE {', '.join(tables)}")
            for trigger in COUNTING:
                self._run(f"ALTER TABLE job DISABLE TRIGGER {trigger}")
            self._write_mark(Mark(source, "copying", None))

    def _tables(self) -> list[str]:
        found = self._rows("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        return sorted(name for (name,) in found if name not in {"schema", "promotion"})

    def _close_to_others(self, tables: Sequence[str]) -> None:
        """Refuse other writers. Creating a trigger waits for those already writing."""
        self._run(MARK)
        self._run(GUARD)
        for table in tables:
            self._run(f"DROP TRIGGER IF EXISTS only_promotion ON {table}")
            self._run(
                f"CREATE TRIGGER only_promotion BEFORE INSERT OR UPDATE OR DELETE ON {table}"
                " FOR EACH STATEMENT EXECUTE FUNCTION only_promotion()"
            )

    def _check_empty(self, tables: Sequence[str]) -> None:
        for table in tables:
            if self._rows(f"SELECT 1 FROM {table} LIMIT 1"):  # noqa: S608 - read from the catalogue
                raise ConfigurationError(
                    f"{self._address} is not empty ({table} has rows), and nothing is overwritten; name an empty "
                    "schema, and start workers there when promote has ended"
                )

    def _write_mark(self, mark: Mark) -> None:
        self._run("DELETE FROM promotion")
        account = None if mark.account is None else msgspec.json.encode(mark.account).decode()
        self._run("INSERT INTO promotion VALUES (%s, %s, %s)", (mark.source, mark.state, account))

    def ready(self, source: str, account: dict[str, Any]) -> None:
        """Record that everything is here and was compared. Count the jobs now, because copying did not count them."""
        with self._transaction():
            for trigger in COUNTING:
                self._run(f"ALTER TABLE job ENABLE TRIGGER {trigger}")
            self._run("SELECT count_all_jobs()")
            self._write_mark(Mark(source, "ready", account))

    def open_to_all(self, source: str, account: dict[str, Any] | None) -> None:
        """Allow all writers."""
        with self._transaction():
            for table in self._tables():
                self._run(f"DROP TRIGGER IF EXISTS only_promotion ON {table}")
            self._run("DROP FUNCTION IF EXISTS only_promotion()")
            self._write_mark(Mark(source, "live", account))

    # --- filling

    def replace_jobs(self, numbers: Sequence[int], jobs: Jobs) -> None:
        """Replace the jobs with these numbers by the given ones; numbers without a given job are deleted."""
        with self._transaction():
            for table in BY_NUMBER:
                self._run(f"DELETE FROM {table.name} WHERE n = ANY (%s)", (list(numbers),))  # noqa: S608 - ours
                self._copy(table, jobs[table.name])

    def replace_keys(self, keys: Rows, rows: Rows) -> None:
        """Replace these keys by the given rows."""
        with self._transaction():
            with self._connection.cursor() as cursor:
                cursor.executemany("DELETE FROM idempotency WHERE queue = %s AND key = %s", keys)
            self._copy(KEYS, rows)

    def append(self, table: Table, rows: Rows) -> None:
        """Append these rows to the existing ones."""
        with self._transaction():
            self._copy(table, rows)

    def replace_whole(self, table: Table, rows: Rows) -> None:
        """Replace the contents of a table."""
        with self._transaction():
            self._run(f"DELETE FROM {table.name}")  # noqa: S608 - ours
            self._copy(table, rows)

    def set_ends(self, number: int, oldest: int, seq: int, now: float) -> None:
        """Continue the numbering after the highest numbers of the source, even if their rows are gone."""
        with self._transaction():
            if number:
                self._run("SELECT setval('job_number', %s)", (number,))
            self._run("DELETE FROM journal WHERE seq < %s", (oldest,))
            if seq:
                self._run("INSERT INTO journal VALUES (%s, %s, '[]') ON CONFLICT (seq) DO NOTHING", (seq, now))

    def _copy(self, table: Table, rows: Rows) -> None:
        if not rows:
            return
        columns = ", ".join(table.columns)
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def measure(self) -> None:
        """Let the server collect statistics: it plans badly until it has them."""
        with self._transaction():
            self._run(f"ANALYZE {', '.join(self._tables())}")

    # --- reading back

    def jobs(self, first: int, last: int) -> Jobs:
        """Read the jobs of a range of numbers, including both ends."""
        with self._transaction():
            return {
                table.name: self._rows(
                    f"{table.select} {table.name} WHERE n BETWEEN %s AND %s ORDER BY {', '.join(table.key)}",
                    (first, last),
                )
                for table in BY_NUMBER
            }

    def prints(self, first: int, last: int, block: int) -> dict[int, str]:
        """Let the server hash the jobs of a range in blocks: not to compare with SQLite, but with a later state."""
        parts = " UNION ALL ".join(
            f"SELECT n, hashtextextended('{table.name} ' || t::text, 0) AS hash FROM {table.name} AS t"  # noqa: S608 - ours
            " WHERE n BETWEEN %(first)s AND %(last)s"
            for table in BY_NUMBER
        )
        sql = f"SELECT n / %(block)s, sum(hash)::text FROM ({parts}) AS parts GROUP BY 1"  # noqa: S608 - likewise
        with self._transaction():
            return dict(self._rows(sql, {"first": first, "last": last, "block": block}))

    def keys(self, keys: Rows) -> Rows:
        """Read these keys, in SQLite's order."""
        among = "SELECT unnest(%s::text[]), unnest(%s::text[])"
        sql = f"{KEYS.select} idempotency WHERE (queue, key) IN ({among})"
        with self._transaction():
            return sorted(self._rows(sql, ([queue for queue, _ in keys], [key for _, key in keys])))

    def number_of_keys(self) -> int:
        """Count the keys."""
        with self._transaction():
            [(number,)] = self._rows("SELECT count(*) FROM idempotency")
        return int(number)

    def appended(self, table: Table, after: int, limit: int) -> Rows:
        """Read an append-only table after a given number."""
        sql = f"{table.select} {table.name} WHERE seq > %s ORDER BY seq LIMIT %s"
        with self._transaction():
            return self._rows(sql, (after, limit))

    def whole_table(self, table: Table) -> Rows:
        """Read a small table, in SQLite's order."""
        order = ", ".join(column if column in table.numbers else f'{column} COLLATE "C"' for column in table.key)
        with self._transaction():
            return self._rows(f"{table.select} {table.name} ORDER BY {order}")

    def counts(self) -> dict[str, int]:
        """Count the jobs in each state."""
        with self._transaction():
            return dict(self._rows("SELECT state, count(*) FROM job GROUP BY state"))

    # --- the server

    def _run(self, sql: str, parameters: Row | None = None) -> None:
        self._connection.execute(sql.encode(), parameters)

    def _rows(self, sql: str, parameters: Row | dict[str, Any] | None = None) -> Rows:
        return self._connection.execute(sql.encode(), parameters).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._explaining():
            self._connection.execute(self._opening.encode())
            with rolled_back_on_failure(self._connection):
                yield
                self._connection.execute("COMMIT")

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise StoreUnavailable(
                f"cannot go on with {self._address}: {str(error).strip()}; "
                "run promote again: it continues where it stopped",
                definite=True,
            ) from error
