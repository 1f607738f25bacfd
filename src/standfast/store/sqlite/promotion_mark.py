"""The mark of a store that is being promoted or has moved. Each process that has it open checks in each transaction.

A promotion leaves its mark with a time by which it must report again. A process that finds that time past removes the
mark and what belongs to it: an interrupted promotion costs nothing but a second try.
"""

from __future__ import annotations

from typing import NamedTuple

import apsw

from standfast.errors import StoreMoved
from standfast.store.migrations import check_readable

BY_NUMBER = ("job", "body", "ending", "history", "effect", "traceback", "look", "job_progress")
CLOSED = (
    *BY_NUMBER,
    "idempotency",
    "queue",
    "handler",
    "worker",
    "gate",
    "journal",
    "counter",
    "upkeep",
    "audit",
    "chain",
    "policy",
)
"""The tables that are read-only once the store has moved."""
VERBS = {"INSERT": "NEW", "UPDATE": "NEW", "DELETE": "OLD"}
OLDEST_TO_REFUSE = 2
"""The first schema number whose library checks whether a store has moved; older ones must not open it afterwards."""


STANDING = """
SELECT s.readable_by, m.source, m.run, m.state, m.home, m.until, m.no_claims_until
FROM schema AS s LEFT JOIN moving AS m
"""


class PromotionMark(NamedTuple):
    """The mark of a promotion. `source` names the store permanently, `run` one try; times are queue time."""

    source: str
    run: str
    state: str
    home: str
    until: float
    no_claims_until: float


def look(connection: apsw.Connection) -> PromotionMark | None:
    """Read the mark, if there is one."""
    found = connection.execute("SELECT source, run, state, home, until, no_claims_until FROM moving").fetchone()
    return None if found is None else PromotionMark(*found)


def check_usable(connection: apsw.Connection) -> PromotionMark | None:
    """Refuse a store that has moved, or whose schema has become too new; return the mark of a promotion, if any.

    One statement reads both, because every transaction asks.
    """
    [(readable_by, *mark)] = connection.execute(STANDING)
    check_readable("sqlite", readable_by, connection.filename or "this store")
    if mark[0] is None:
        return None
    found = PromotionMark(*mark)
    if found.state == "moved":
        raise StoreMoved(found.home)
    return found


def claims_frozen(connection: apsw.Connection, now: float) -> bool:
    """Return whether no job may be started now; refuse an unusable store. Runs in a write transaction."""
    found = check_usable(connection)
    if found is None:
        return False
    if found.until < now:
        forget(connection)
    return found.no_claims_until > now


def write(connection: apsw.Connection, mark: PromotionMark) -> None:
    """Set the mark, in place of any other."""
    connection.execute("DELETE FROM moving")
    connection.execute("INSERT INTO moving VALUES (?, ?, ?, ?, ?, ?)", mark)


def forget(connection: apsw.Connection) -> None:
    """Remove what a promotion left. The store keeps its name, so that a half-filled target still recognises it."""
    for (trigger,) in connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'promote_%'"
    ).fetchall():
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute("DELETE FROM changed_job")
    connection.execute("DELETE FROM changed_key")
    connection.execute("UPDATE moving SET state = 'interrupted', until = 9e99, no_claims_until = 0")


def note_changes(connection: apsw.Connection) -> None:
    """Record every change, by whatever process."""
    for verb, row in VERBS.items():
        for table in BY_NUMBER:
            connection.execute(
                f"CREATE TRIGGER promote_{table}_{verb} AFTER {verb} ON {table} BEGIN INSERT INTO changed_job"  # noqa: S608 - names of ours
                f" SELECT {row}.n WHERE NOT EXISTS (SELECT 1 FROM changed_job WHERE n = {row}.n); END"
            )
        connection.execute(
            f"CREATE TRIGGER promote_idempotency_{verb} AFTER {verb} ON idempotency BEGIN INSERT INTO changed_key"  # noqa: S608 - likewise
            f" SELECT {row}.queue, {row}.key"
            f" WHERE NOT EXISTS (SELECT 1 FROM changed_key WHERE queue = {row}.queue AND key = {row}.key); END"
        )


def close_for_good(connection: apsw.Connection, mark: PromotionMark) -> None:
    """Record where the store has gone, and refuse every later write, also from older libraries."""
    forget(connection)
    write(connection, mark._replace(state="moved", until=9e99, no_claims_until=9e99))
    connection.execute("UPDATE schema SET readable_by = max(readable_by, ?)", (OLDEST_TO_REFUSE,))
    text = str(StoreMoved(mark.home)).replace("'", "''")
    for verb in VERBS:
        for table in CLOSED:
            connection.execute(
                f"CREATE TRIGGER moved_{table}_{verb} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, '{text}'); END"
            )
