"""How the named statements are written down, and what a file of them is refused for."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from standfast.job import Claim
from standfast.store.statements import DIALECTS, collect, load

SOURCE = Path(__file__).parents[2] / "src" / "standfast"


def loaded(text: str, dialect: str = "sqlite") -> dict[str, str]:
    return {name: each.sql for name, each in collect(text).in_dialect(dialect).items()}


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
        ("-- name: a (oracle)\nSELECT 1\n", "unknown header"),
        ("-- name: a b\nSELECT 1\n", "unknown header"),
        ("-- name: a\n-- lacks: jobs\nSELECT 1\n", "has an unknown option"),
        ("-- name: a\n-- locks: jbos\nDELETE FROM job\n", "has an unknown option"),
        (
            "-- name: a\n-- locks: jobs\nDELETE FROM job\n-- name: a (postgres)\n-- locks: keys\nSELECT 1\n",
            "says twice",
        ),
        ("-- name: a\nSELECT 1\n-- name:b\nSELECT 2\n", "unknown header"),
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
        collect(f"-- name: a (postgres only)\n{sql}\n")
    said = collect(f"-- name: a (postgres only)\n-- locks: jobs\n-- waits: no\n-- answers: none\n{sql}\n")
    statement = said.in_dialect("postgres")["a"]
    assert (statement.sql, statement.rank, statement.waits, statement.answers) == (sql, "jobs", False, False)


WRITES_RULES = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM) (?:queue|handler|policy)\b")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_whatever_writes_rules_says_so(dialect):
    """Or a process that changed rules itself would go on by those it remembers."""
    unsaid = {name for name, each in load(dialect).items() if WRITES_RULES.search(each.sql) and not each.changes_rules}
    assert unsaid <= {"count_claims"}, "what is counted there is not remembered"


# --- dialects


def test_casts_and_locks_are_left_out_for_sqlite():
    text = "-- name: a\n-- locks: jobs\nSELECT n FROM job AS j WHERE n = :n::bigint FOR UPDATE OF j SKIP LOCKED\n"
    assert loaded(text, "sqlite")["a"] == "SELECT n FROM job AS j WHERE n = :n"
    assert loaded(text, "postgres")["a"].endswith("n = :n::bigint FOR UPDATE OF j SKIP LOCKED")


def test_arrays_and_batches_cross_as_json():
    text = "-- name: a\nSELECT 1 FROM job WHERE n IN :integers(some) OR queue IN :texts(names)\n"
    assert "n IN (SELECT value FROM json_each(:some)) OR queue IN (" in loaded(text, "sqlite")["a"]
    assert "n = ANY (ARRAY(SELECT jsonb_array_elements_text(:some::jsonb)::bigint))" in loaded(text, "postgres")["a"]
    assert "queue = ANY (ARRAY(SELECT jsonb_array_elements_text(:names::jsonb)))" in loaded(text, "postgres")["a"]
    text = "-- name: a\n-- locks: jobs\nINSERT INTO history (n, entry) :rows(bigint, text)\n"
    assert loaded(text, "sqlite")["a"] == "INSERT INTO history (n, entry) VALUES :rows"
    assert loaded(text, "postgres")["a"].endswith(
        "SELECT (r->>0)::bigint, r->>1 FROM jsonb_array_elements(:rows::jsonb) AS r"
    )


# --- columns

ROW = "-- columns: standfast.wings.audit.words.Link\n"
SELECT = "-- name: a\nSELECT :columns(Link) FROM audit AS l\n"


def test_columns_come_in_the_order_of_the_fields_however_they_are_written():
    text = f"{ROW}hash: lower(l.hash,\n  1)\nfrom l: previous, entries,\n  at\n-- Why.\nseq: l.n\n\n{SELECT}"
    assert loaded(text) == {"a": "SELECT l.n, l.at, l.entries, l.previous, lower(l.hash,\n  1) FROM audit AS l"}


def test_a_dialect_has_expressions_of_its_own():
    text = f"{ROW}from l: seq, at, entries, previous, hash\n\n{ROW.strip()} (postgres)\nat: l.at::text\n\n{SELECT}"
    assert loaded(text, "sqlite") == {"a": "SELECT l.seq, l.at, l.entries, l.previous, l.hash FROM audit AS l"}
    assert loaded(text, "postgres") == {"a": "SELECT l.seq, l.at::text, l.entries, l.previous, l.hash FROM audit AS l"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{ROW}from l: seq, at, entries, previous\n{SELECT}", "are not its fields: look at hash"),
        (f"{ROW}from l: seq, at, entries, previous, hash, extra\n{SELECT}", "are not its fields: look at extra"),
        (f"{ROW}from l: at, entries, previous, hash\nlater: seq\n{SELECT}", "are not its fields: look at"),
        (f"{ROW}from l: seq\n\n{ROW}from l: seq\n\n{SELECT}", "the columns Link are written twice"),
        ("-- columns: elsewhere.Link\nfrom l: seq\n\n-- name: a\nSELECT 1\n", "unknown header"),
        (SELECT, "no columns have the name Link"),
        (f"-- name: b\nSELECT 1\n\n{ROW}from l: seq\n", "unknown header"),
    ],
)
def test_columns_that_do_not_fit_their_struct_are_refused(text, why):
    with pytest.raises(ValueError, match=why):
        loaded(text)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_new_field_without_an_expression_fails_at_load(dialect, monkeypatch):
    fields = [*Claim.__struct_fields__[:5], "brand_new", *Claim.__struct_fields__[5:]]
    monkeypatch.setattr("standfast.job.Claim", msgspec.defstruct("Claim", fields, array_like=True))
    with pytest.raises(ValueError, match=r"the columns of standfast\.job\.Claim are not its fields: look at brand_new"):
        load(dialect)


def test_every_list_of_columns_is_used():
    text = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("statements.sql")]
    assert {label for label in collect(*text).columns if f":columns({label})" not in "".join(text)} == set()


# --- parts


def test_a_part_stands_in_every_statement_that_names_it_as_each_dialect_has_it():
    shared = "-- part: p\ninstr(id, :text) > 0\n\n-- part: p (postgres)\nstrpos(id, :text) > 0\n\n"
    text = f"{shared}-- name: a\nSELECT 1 FROM body WHERE :part(p)\n\n-- name: b\nSELECT 2 FROM body WHERE :part(p)\n"
    assert loaded(text, "sqlite")["a"] == "SELECT 1 FROM body WHERE instr(id, :text) > 0"
    assert loaded(text, "postgres")["b"] == "SELECT 2 FROM body WHERE strpos(id, :text) > 0"
    with pytest.raises(ValueError, match="the statement a has a part that is not there: q"):
        collect("-- name: a\nSELECT 1 FROM body WHERE :part(q)\n")


def test_a_statement_of_both_dialects_has_the_parts_that_each_dialect_writes_itself():
    """Neither the shared text nor nothing at all stands in SQLite's place."""
    use = "-- name: a\nSELECT 1 FROM body WHERE :part(p)\n"
    for others in ("-- part: p (postgres)\n2\n\n", "-- part: p\n2\n\n"):
        text = f"-- part: p (sqlite)\n1\n\n{others}{use}"
        assert loaded(text, "sqlite") == {"a": "SELECT 1 FROM body WHERE 1"}
        assert loaded(text, "postgres") == {"a": "SELECT 1 FROM body WHERE 2"}


USE = "-- name: a\nSELECT n FROM job WHERE state = 'dead' :part(p)\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"-- part: p (postgres)\nAND 1\n\n{USE}", "the part p is not written for each dialect once"),
        (f"-- part: p (sqlite)\nAND 1\n\n{USE}", "the part p is not written for each dialect once"),
        (f"-- part: p (postgres only)\nAND 1\n\n{USE}", "the part p is not written for each dialect once"),
        (f"-- part: p\nAND 1\n\n-- part: p\nAND 2\n\n{USE}", "the part p is written twice"),
        (f"-- part: p\n-- Why.\n\n{USE}", "the part p is empty"),
        (f"-- part: q\nAND 1\n\n-- part: p\nAND 2 :part(q)\n\n{USE}", "the part p has a part of its own"),
        (f"-- part: p\nAND 1\n-- part:q\nAND 2\n\n{USE}", "unknown header"),
        (f"-- part: p\nAND 1\n\n{ROW}from l: seq\n\n{USE}", "unknown header"),
        (f"-- part: p\nAND 1\n\n{USE}\n-- part: q\nAND 2\n", "unknown header"),
    ],
)
def test_a_part_that_would_be_misread_is_refused(text, why):
    """Whatever filters a deletion may stand in a part: without it, more would be deleted."""
    with pytest.raises(ValueError, match=why):
        collect(text)


def test_a_part_is_written_twice_if_another_file_has_it_too():
    with pytest.raises(ValueError, match="the part p is written twice"):
        collect(f"-- part: p\nAND 1\n\n{USE}", "-- part: p\nAND 2\n")


def test_every_part_is_used_twice_at_least():
    text = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("statements.sql")]
    assert {name for name in collect(*text).parts if "".join(text).count(f":part({name})") < 2} == set()
