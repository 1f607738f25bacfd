"""How the named statements are written down, and what a file of them is refused for."""

from __future__ import annotations

import re

import pytest

from standfast.store.statements import DIALECTS, load, written


def loaded(text: str, dialect: str = "sqlite") -> dict[str, str]:
    return {name: each.in_dialect(dialect).sql for name, each in written(text).items()}


def test_what_both_dialects_share_is_written_once():
    text = "-- name: shared\n-- Why.\nSELECT 1\n\n-- name: other\nSELECT 2\n\n-- name: other (postgres)\nSELECT 3\n"
    assert loaded(text, "sqlite") == {"shared": "SELECT 1", "other": "SELECT 2"}
    assert loaded(text, "postgres") == {"shared": "SELECT 1", "other": "SELECT 3"}


def test_what_only_postgres_needs_does_nothing_in_sqlite():
    text = "-- name: lock (postgres only)\n-- There is one writer.\nSELECT lock()\n"
    assert loaded(text, "sqlite") == {"lock": ""}
    assert loaded(text, "postgres") == {"lock": "SELECT lock()"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-- name: a\nSELECT 1\n\n-- name: a\nSELECT 2\n", "the statement a is written twice"),
        ("-- name: a (postgres)\nSELECT 1\n", "the statement a is not written for each dialect once"),
        ("-- name: a (sqlite)\nSELECT 1\n", "the statement a is not written for each dialect once"),
        ("-- name: a\nSELECT 1\n-- name: a (postgres only)\nSELECT 2\n", "not written for each dialect once"),
        ("-- name: a (oracle)\nSELECT 1\n", "nobody knows the header"),
        ("-- name: a b\nSELECT 1\n", "nobody knows the header"),
        ("-- name: a\n-- lacks: jobs\nSELECT 1\n", "says what nobody knows"),
        ("-- name: a\n-- locks: jbos\nDELETE FROM job\n", "says what nobody knows"),
        (
            "-- name: a\n-- locks: jobs\nDELETE FROM job\n-- name: a (postgres)\n-- locks: keys\nSELECT 1\n",
            "says twice",
        ),
        ("-- name: a\nSELECT 1\n-- name:b\nSELECT 2\n", "nobody knows a header"),
        ("SELECT 0\n-- name: a\nSELECT 1\n", "stands before the first"),
    ],
)
def test_a_file_that_would_be_misread_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        [loaded(text, dialect) for dialect in DIALECTS]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO job VALUES (1)",
        "WITH gone AS (\n  DELETE FROM job RETURNING n)\nSELECT n FROM gone",
        "SELECT n FROM job FOR UPDATE",
        "SELECT n FROM job FOR SHARE",
        "SELECT pg_advisory_xact_lock(1)",
        "LOCK TABLE job IN EXCLUSIVE MODE",
    ],
)
def test_a_statement_that_locks_says_what(sql):
    with pytest.raises(ValueError, match="does not say what it `-- locks:`"):
        written(f"-- name: a (postgres only)\n{sql}\n")
    said = written(f"-- name: a (postgres only)\n-- locks: jobs\n-- waits: no\n-- answers: none\n{sql}\n")
    statement = said["a"].in_dialect("postgres")
    assert (statement.sql, statement.rank, statement.waits, statement.answers) == (sql, "jobs", False, False)


WRITES_RULES = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM) (?:queue|handler|policy)\b")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_whatever_writes_rules_says_so(dialect):
    """Or a process that changed rules itself would go on by those it remembers."""
    unsaid = {name for name, each in load(dialect).items() if WRITES_RULES.search(each.sql) and not each.changes_rules}
    assert unsaid <= {"count_claims"}, "what is counted there is not remembered"
