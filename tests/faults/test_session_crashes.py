"""A process is killed at any write of an end and its message, of a consent and what it lets go, of an alert."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults import sessions
from tests.faults.killing import Look, at_statements, at_writes, which
from tests.faults.nursery import Nursery, nursery, reported

STEP = 40
"""Of so many writes one is tried, another in each run; `--soak` tries all."""

WIDE_STEP = 64

FLAWS = {
    "an end without its message, or a message without its end": """
        SELECT b.id FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.details->>'session' IS NOT NULL AND
        (SELECT count(*) FROM message AS m WHERE m.job = b.id) <> (
          SELECT count(*) FROM history AS h
          WHERE h.n = b.n AND h.entry->>'reason_code' IN ('request_rejected', 'consent_required'))
        + CASE WHEN j.state = 'completed' AND (EXISTS (SELECT 1 FROM ending AS e WHERE e.n = b.n AND e.replays > 0)
          OR EXISTS (SELECT 1 FROM history AS h WHERE h.n = b.n AND h.entry->>'reason_code' = 'consent_required'))
          THEN 1 ELSE 0 END""",
    "a message that is not told": """
        SELECT 1 WHERE (SELECT count(*) FROM message) <> coalesce((
          SELECT sum(c.value) FROM {counter} AS c WHERE c.name = 'inbox'), 0)""",
    "a job that waits for nothing, or an answer that nobody waits for": """
        SELECT j.n FROM job AS j LEFT JOIN consent_ask AS a ON a.n = j.n
        WHERE (j.state = 'held') <> (a.n IS NOT NULL)""",
    "a use that is not counted, or counted and nobody's": """
        SELECT id FROM consent AS c WHERE used > uses
        OR used <> (SELECT count(*) FROM consent_use AS u WHERE u.consent = c.id)""",
    "a consent without its decision": """
        SELECT 1 WHERE (SELECT count(*) FROM consent) <> (
          SELECT count(*) FROM audit WHERE entries LIKE '%"kind":"grant"%')""",
    "a letter counted twice or not at all": """
        SELECT 1 FROM follower AS f
        WHERE coalesce((SELECT number FROM alert), 0) <> CASE WHEN f.seq >= 3 THEN 2 ELSE 0 END""",
    "an alert that nobody carries, or that is carried and not marked": """
        SELECT 1 FROM alert AS a WHERE a.told <> coalesce((
          SELECT CAST(b.payload->>'count' AS integer) FROM body AS b WHERE b.id = 'alert'), 0)""",
}
"""What may never be in a store: each change is there with all that belongs to it, or not at all."""
COUNTER = {
    "sqlite": "counter",
    "postgres": "(SELECT name, value FROM counter UNION ALL SELECT name, value FROM counted)",
}
WRITTEN = (
    *("job", "body", "ending", "history", "message", "consent", "consent_use", "consent_ask", "follower", "alert"),
    *("counter", "counted", "journal", "audit", "chain"),
)


@pytest.fixture(scope="module")
def children() -> Iterator[Nursery]:
    with nursery() as started:
        yield started


@pytest.mark.timeout(0)
def test_ends_consents_and_alerts_are_written_whole_or_not_at_all(place, soak, children):
    for look, told in at_writes(children, place, sessions.tell_and_die, which(STEP, soak=soak)):
        check(look, "sqlite", told)


@pytest.mark.timeout(0)
def test_a_process_that_is_killed_before_a_statement_leaves_a_server_whole(postgres_url, tmp_path, soak, children):
    numbers, role = which(WIDE_STEP, soak=soak), sessions.tell_and_die_on_a_server
    for look, told in at_statements(children, postgres_url, tmp_path, role, numbers, written=WRITTEN):
        check(look, "postgres", told)


def check(look: Look, dialect: str, path: Path) -> None:
    """Hold the store against what was told."""
    told: dict[str, Any] = {"ended": {}}
    for line in reported(path):
        told["ended"] |= line.pop("ended", {})
        told |= line
    found = {flaw: look(_in(dialect, query)) for flaw, query in FLAWS.items()}
    assert {flaw: rows for flaw, rows in found.items() if rows} == {}, path
    messages = {job for (job,) in look("SELECT job FROM message")}
    grants = [found for (found,) in look("SELECT id FROM consent")]
    assert set(told["ended"]) <= messages
    assert "granted" not in told or grants == [told["granted"]]
    assert "told" not in told or look("SELECT number, told FROM alert") == [(2, 2)]


def _in(dialect: str, query: str) -> str:
    """Write a question as an engine has it: texts that hold JSON are read as such only where that is said."""
    asked = query.replace("{counter}", COUNTER[dialect])
    return asked if dialect == "sqlite" else re.sub(r"(\w+\.\w+)->>", r"(\1::jsonb)->>", asked)
