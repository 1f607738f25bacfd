"""Processes that are killed at one write after the other, each followed by a look at what it left."""

from __future__ import annotations

import itertools
import random
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from shutil import copy
from typing import Any

import apsw

from standfast.application.wings import store_at
from standfast.store.sqlite.files import Files
from tests.faults.nursery import Nursery
from tests.postgres import connect

Look = Callable[[str], list[tuple[Any, ...]]]


def which(step: int, *, soak: bool) -> Iterable[int]:
    """Give the numbers of the writes to be killed at: every one, or one of so many, and other ones in each run."""
    first = random.randint(1, step)  # noqa: S311 - chance, not secrecy; a failure names its directory
    return itertools.count(1) if soak else itertools.count(first, step)


def at_writes(
    children: Nursery, place: Path, role: Callable[..., None], numbers: Iterable[int]
) -> Iterator[tuple[Look, Path]]:
    """Have a role killed at writes of a file, until it is over before; give each time how to look and what was told."""
    made = Files(str(place / "new.db"))
    made.close(made.open())
    for n in numbers:
        directory = place / str(n)
        directory.mkdir()
        copy(place / "new.db", directory / "queue.db")
        status = children.spawn(role, directory, n).wait()
        assert status in (0, -signal.SIGKILL)
        files = Files(str(directory / "queue.db"))
        connection = files.open()
        yield partial(_rows, connection), directory / "told"
        files.close(connection)
        if status == 0:
            break
    assert n > 100, "the scenario is shorter than it was"


def _rows(connection: apsw.Connection, sql: str) -> list[tuple[Any, ...]]:
    return list(connection.execute(sql))


def at_statements(
    children: Nursery,
    url: str,
    place: Path,
    role: Callable[..., None],
    numbers: Iterable[int],
    *,
    written: Sequence[str],
) -> Iterator[tuple[Look, Path]]:
    """Have a role killed before statements to a server, likewise; what it wrote into these tables is deleted then."""
    with closing(store_at(url)) as store:
        store.open()
    with connect(url) as connection:

        def look(question: str) -> list[tuple[Any, ...]]:
            return connection.execute(question.encode()).fetchall()

        for n in numbers:
            told = place / f"told-{n}"
            told.touch()
            status = children.spawn(role, url, told, n).wait()
            assert status in (0, -signal.SIGKILL)
            yield look, told
            for table in written:
                look(f"WITH gone AS (DELETE FROM {table} RETURNING 1) SELECT count(*) FROM gone")  # noqa: S608 - names of ours
            if status == 0:
                break
    assert n > 60, "the scenario is shorter than it was"
