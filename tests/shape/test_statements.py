"""How the named statements are written down, and what a file of them is refused for."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from standfast.store.statements import DIALECTS, blocks, chosen, load

GOLDEN = Path(__file__).with_name("statements.json")


def loaded(text: str, dialect: str = "sqlite") -> dict[str, str]:
    return {name: each.sql for name, each in chosen(list(blocks(text)), dialect).items()}


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
        ("SELECT 0\n-- name: a\nSELECT 1\n", "stands before the first"),
    ],
)
def test_a_file_that_would_be_misread_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        [loaded(text, dialect) for dialect in DIALECTS]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_move_into_files_of_the_wings_changed_no_statement(dialect):
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))[dialect]
    hashes = {name: sha256(each.sql.encode()).hexdigest()[:16] for name, each in load(dialect).items()}
    assert hashes == golden
