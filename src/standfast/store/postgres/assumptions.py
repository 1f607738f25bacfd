"""What a round assumes instead of waiting for answers. The server checks it, and fails the round if it is wrong.

Most answers can be predicted: the rules are those of the previous round, every inserted body is new, every completed
job was still running. A statement with `assumes:` is sent together with a check, and its script continues at once with
the expected answer. A check that fails divides by zero; then the server skips what follows, even the COMMIT. The round
is run again, and waits for every answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
import psycopg

from standfast.store.postgres.session import Numbered, Session, numbered
from standfast.store.statements import Statement
from standfast.store.steps import Batch, Rows

MISTAKEN = (psycopg.errors.DivisionByZero, psycopg.errors.UniqueViolation)
"""The server's errors if a check fails, or if a number that came earlier was given to another job."""
SURE_AFTER = 2
"""How many times in a row a question must have had the same answer before that is assumed."""
MOST_ANSWERS = 256
"""How many answers are kept: each set of queues that rounds deal with is a question of its own."""
NUMBERS_KEPT = 1.0
"""Seconds that numbers may wait for their jobs, so that the numbers of all processes stay nearly in order of time."""
FEWEST_NUMBERS = 16
NEXT_NUMBERS = "next_numbers"

_integers = msgspec.json.Decoder(list[int]).decode


class Told(NamedTuple):
    """An answer: as the server compares it, as scripts receive it, and how many times in a row it was given."""

    as_text: str
    rows: Rows
    times: int


class Checked(NamedTuple):
    """A statement with its check, and one that asks and returns what later checks compare with."""

    check: Numbered
    ask: Numbered


def checked(name: str, statement: Statement, at_once: Statement | None = None) -> Checked | None:
    """Return a statement with its check, if it declares an assumption.

    `at_once` is used to write the same if a check follows; it may then write less than all that it is given.
    """
    own = numbered(name, statement)
    if statement.assumes == "same":
        found = f"(SELECT json_agg(found) FROM ({statement.sql}) AS found)::text"  # noqa: S608 - all of it is ours
        check = f"SELECT 1 / (coalesce({found}, '[]') = :last::text)::integer"
        ask = f"SELECT found.*, (json_agg(found) OVER ())::text FROM ({statement.sql}) AS found"  # noqa: S608
        return Checked(_variant(f"{name} as before", statement, check), _variant(f"{name} to keep", statement, ask))
    if statement.assumes == "all":
        written = at_once or statement
        writes = written.sql if written.gives_rows else f"{written.sql}\nRETURNING 1"
        check = f"WITH written AS ({writes}) SELECT 1 / (count(*) = :count)::integer FROM written"  # noqa: S608
        return Checked(_variant(f"{name} all", statement, check), own)
    return None


def _variant(name: str, statement: Statement, sql: str) -> Numbered:
    return numbered(name, msgspec.structs.replace(statement, sql=sql))


class Assumptions:
    """What the writer's session knows from round to round. Nothing is trusted without the server's check."""

    def __init__(self, session: Session, elapsed: Callable[[], float]) -> None:
        self._session = session
        self._elapsed = elapsed
        self._told: dict[tuple[Any, ...], Told] = {}
        self._numbers: Rows = []
        self._numbers_came = 0.0
        self.trusted = False
        """Whether a round uses the assumptions; one in which an assumption was wrong asks for everything."""

    def forget_rules(self) -> None:
        """Forget all answers: one of our own statements changes what they are about."""
        self._told.clear()

    # --- questions

    def answer(self, statement: Checked, given: Mapping[str, Any]) -> Rows:
        """Return an earlier answer and let the server compare it; or ask the server."""
        key = statement.ask.name, *given.values()
        known = self._told.get(key)
        if self.trusted and known is not None and known.times >= SURE_AFTER:
            self._session.tell(statement.check, {**given, "last": known.as_text})
            return known.rows
        found = self._session.ask(statement.ask, given)
        as_text = found[0][-1] if found else "[]"
        times = known.times + 1 if known is not None and known.as_text == as_text else 1
        rows = [row[:-1] for row in found]
        self._told.pop(key, None)
        while len(self._told) >= MOST_ANSWERS:
            del self._told[next(iter(self._told))]  # the one that the server was asked longest ago
        self._told[key] = Told(as_text, rows, times)
        return rows

    # --- writes

    def written(self, statement: Checked, parameters: Mapping[str, Any] | Batch, given: Mapping[str, Any]) -> Rows:
        """Assume that a statement writes every row that it is given."""
        if not self.trusted:
            return self._session.ask(statement.ask, given)
        count = len(_integers(given["numbers"]) if isinstance(parameters, Mapping) else parameters)
        self._session.tell(statement.check, {**given, "count": count})
        return [(count,)]

    # --- numbers

    def numbers(self, statement: Numbered, count: int) -> Rows:
        """Return numbers for new jobs from those that came with an earlier answer, and request more with the next."""
        kept = self.trusted and self._elapsed() - self._numbers_came <= NUMBERS_KEPT
        if len(self._numbers) < count or not kept:
            self._bring(self._session.ask(statement, {"count": 2 * count}))
        taken, self._numbers = self._numbers[:count], self._numbers[count:]
        if len(self._numbers) < count:
            self._session.tell(statement, {"count": max(FEWEST_NUMBERS, 2 * count)}, self._bring)
        return taken

    def _bring(self, rows: Rows) -> None:
        self._numbers = rows
        self._numbers_came = self._elapsed()
