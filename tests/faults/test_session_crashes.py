"""A process is killed at any write of an end and its message, of a consent and what it lets go, of an alert."""

from __future__ import annotations

import itertools
import random
import signal
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from standfast.store.sqlite.files import Files
from tests.faults import sessions
from tests.faults.nursery import nursery, reported

STEP = 40
"""Of so many writes one is tried, another in each run; `--soak` tries all."""

FLAWS = {
    "an end without its message, or a message without its end": """
        SELECT b.id FROM body AS b JOIN job AS j ON j.n = b.n WHERE b.details->>'session' IS NOT NULL AND
        (SELECT count(*) FROM message AS m WHERE m.job = b.id) <> (
          SELECT count(*) FROM history AS h
          WHERE h.n = b.n AND h.entry->>'reason_code' IN ('request_rejected', 'consent_required'))
        + (j.state = 'completed' AND EXISTS (SELECT 1 FROM ending AS e WHERE e.n = b.n AND e.replays > 0))""",
    "a message that is not told": """
        SELECT 1 WHERE (SELECT count(*) FROM message) <> coalesce((
          SELECT sum(value) FROM counter WHERE name = 'inbox'), 0)""",
    "a job that waits for nothing, or an answer that nobody waits for": """
        SELECT j.n FROM job AS j LEFT JOIN consent_ask AS a ON a.n = j.n
        WHERE (j.state = 'held') <> (a.n IS NOT NULL)""",
    "a use that is not counted, or counted and nobody's": """
        SELECT id FROM consent AS c WHERE used > uses
        OR used <> (SELECT count(*) FROM consent_use AS u WHERE u.consent = c.id)""",
    "a consent without its decision": """
        SELECT 1 WHERE (SELECT count(*) FROM consent) <> (
          SELECT count(*) FROM audit WHERE instr(entries, '"kind":"grant"'))""",
    "a letter counted twice or not at all": """
        SELECT 1 FROM follower AS f WHERE coalesce((SELECT number FROM alert), 0) <> iif(f.seq >= 3, 2, 0)""",
    "an alert that nobody carries, or that is carried and not marked": """
        SELECT 1 FROM alert AS a WHERE a.told <> coalesce((
          SELECT b.payload->>'count' FROM body AS b WHERE b.id = 'alert'), 0)""",
}
"""What may never be in the file: each change is there with all that belongs to it, or not at all."""


@pytest.mark.timeout(0)
def test_ends_consents_and_alerts_are_written_whole_or_not_at_all(place, soak):
    first = random.randint(1, STEP)  # noqa: S311 - each run tries others; a failure names its directory
    made = Files(str(place / "new.db"))
    made.close(made.open())
    with nursery() as children:
        for n in itertools.count(1) if soak else itertools.count(first, STEP):
            directory = place / str(n)
            directory.mkdir()
            copy(place / "new.db", directory / "queue.db")
            status = children.spawn(sessions.tell_and_die, directory, n).wait()
            assert status in (0, -signal.SIGKILL)
            check(directory)
            if status == 0:
                break
    assert n > 100, "the scenario is shorter than it was"


def check(directory: Path) -> None:
    """Hold the file against what was told."""
    told: dict[str, Any] = {"ended": {}}
    for line in reported(directory / "told"):
        told["ended"] |= line.pop("ended", {})
        told |= line
    files = Files(str(directory / "queue.db"))
    connection = files.open()
    try:
        found = {flaw: list(connection.execute(query)) for flaw, query in FLAWS.items()}
        assert {flaw: rows for flaw, rows in found.items() if rows} == {}, directory
        messages = {job for (job,) in connection.execute("SELECT job FROM message")}
        grants = [found for (found,) in connection.execute("SELECT id FROM consent")]
        alerts = list(connection.execute("SELECT number, told FROM alert"))
    finally:
        files.close(connection)
    assert set(told["ended"]) <= messages
    assert "granted" not in told or grants == [told["granted"]]
    assert "told" not in told or alerts == [(2, 2)]
