"""Two stores that live through the same scenario: play it, read every table of both, and tell what differs.

A scenario is a list of actions, each one call of the public interface. The clock stands still, and moves only when the
scenario says so, so that both stores have the same times. Ids and workers' names are chance: they are told apart by the
order in which they were made.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import apsw
from psycopg import sql

from standfast import Cancel, Effect, Permanent, Snooze, Standfast, StandfastError, Transient
from standfast.testing import FrozenClock, drain
from tests.postgres import connect

AGAIN = 30.0
"""Seconds before a repeat."""

Row = dict[str, Any]
Tables = dict[str, list[Row]]
Prepare = Callable[[Standfast], None]


# --- the application

QUEUES: dict[str, dict[str, Any]] = {
    "plain": {},
    "other": {"attempts": 2},
    "ordered": {"coalesce": "never"},
    "collected": {"coalesce": "collect"},
    "limited": {"concurrency": {"key": "payload.tenant", "limit": 1}},
    "rated": {"rate": {"key": "payload.tenant", "limit": 1, "per": "60s"}},
    "shallow": {"max_depth": 2},
    "effects": {},
    "manual": {},
    "consent": {},
}
HANDLERS: dict[str, dict[str, Any]] = {
    "effects": {"effects": [Effect("note")]},
    "manual": {"replay": "manual"},
    "consent": {"consent": True},
}
DEEDS = ("return", "nothing", "fail once", "fail", "refuse", "snooze", "cancel")


def declare(sf: Standfast) -> None:
    """Declare every queue, with a handler that does what its payload says."""
    snoozed: set[str] = set()

    async def handle(job: Any) -> Any:
        asked = job.payload[0] if isinstance(job.payload, list) else job.payload
        if job.queue == "effects":
            await job.once("note", lambda: {"noted": asked["n"]})
        if asked["do"] == "snooze" and job.id not in snoozed:
            snoozed.add(job.id)
            return Snooze(AGAIN)
        return act(job, asked)

    for queue, rules in QUEUES.items():
        sf.queue(queue, backoff=lambda _repeat: AGAIN, **{"attempts": 3, **rules})
        sf.handler(queue, **HANDLERS.get(queue, {}))(handle)


def act(job: Any, asked: Row) -> Any:
    """Do what a payload says."""
    match asked["do"]:
        case "fail":
            raise Transient("never")
        case "fail once" if job.attempt == 1:
            raise Transient("not yet")
        case "refuse":
            raise Permanent("no")
        case "cancel":
            return Cancel("unwanted")
        case "nothing":
            return None
    return {"n": asked["n"], "after": sorted(job.parents)}


# --- a scenario


@dataclass
class Play:
    """One store that a scenario is played in. `told` is what every call answered."""

    sf: Standfast
    clock: FrozenClock
    ids: list[str] = field(default_factory=list)
    told: list[Any] = field(default_factory=list)

    def remember(self, receipts: Sequence[Any]) -> list[Any]:
        """Keep the ids of jobs, for actions about one of them."""
        self.ids += [receipt.id for receipt in receipts if receipt.id not in self.ids]
        return [[receipt.id, receipt.outcome, receipt.state] for receipt in receipts]

    def job(self, place: int) -> str:
        """Name one of the jobs so far."""
        return self.ids[place % len(self.ids)] if self.ids else "none"


@dataclass(frozen=True)
class Enqueue:
    """Enqueue one job."""

    queue: str
    payload: Row
    options: Row

    async def __call__(self, play: Play) -> Any:
        """Carry it out, and give the answer."""
        return play.remember([await play.sf.enqueue(self.queue, self.payload, **self.options)])


@dataclass(frozen=True)
class EnqueueMany:
    """Enqueue several jobs together."""

    queue: str
    payloads: tuple[Row, ...]

    async def __call__(self, play: Play) -> Any:
        """Carry it out, and give the answer."""
        return play.remember(await play.sf.enqueue_many(self.queue, self.payloads))


@dataclass(frozen=True)
class Flow:
    """Start a workflow: a step behind each other, and one behind all."""

    steps: tuple[Row, ...]

    async def __call__(self, play: Play) -> Any:
        """Carry it out, and give the answer."""
        flow = play.sf.workflow("flow")
        before: list[Any] = []
        for n, payload in enumerate(self.steps):
            before.append(flow.step(f"step {n}", "plain", payload, after=before[-1:]))
        flow.step("last", "other", {"n": 0, "do": "return"}, after=before)
        return await flow.start()


@dataclass(frozen=True)
class Work:
    """Run all that is due."""

    async def __call__(self, play: Play) -> Any:
        """Carry it out, and give how often each queue ran."""
        return sorted((await drain(play.sf)).items())


@dataclass(frozen=True)
class Wait:
    """Let time pass."""

    seconds: float

    async def __call__(self, play: Play) -> Any:
        """Carry it out."""
        play.clock.advance(self.seconds)


@dataclass(frozen=True)
class Operate:
    """Do something to one of the jobs so far: what a person does to jobs and letters."""

    verb: str
    place: int

    async def __call__(self, play: Play) -> Any:
        """Carry it out, and give the state it answered with."""
        job, sf = play.job(self.place), play.sf
        why: dict[str, Any] = {"by": "olga", "reason": "looked into it"}
        match self.verb:
            case "cancel":
                return (await sf.cancel(job, by="olga")).state
            case "retry":
                return (await sf.retry(job, by="olga"))["status"]
            case "replay":
                return (await sf.dead_letters.replay(job, **why))["outcome"]
            case "amend":
                return (await sf.dead_letters.amend(job, {"n": 9, "do": "return"}, **why)).state
            case "discard":
                return (await sf.dead_letters.discard(job, **why)).state
        return (await sf.dead_letters.resolve(job, result="by hand", **why)).state


@dataclass(frozen=True)
class Rule:
    """Change what a queue or a session may do."""

    verb: str

    async def __call__(self, play: Play) -> Any:
        """Carry it out."""
        match self.verb:
            case "pause":
                await play.sf.queues.pause("plain")
            case "resume":
                await play.sf.queues.resume("plain")
            case "consent":
                await play.sf.consent.grant("session", "consent/consent", mode="always", by="tara")


Action = Enqueue | EnqueueMany | Flow | Work | Wait | Operate | Rule
VERBS = ("cancel", "retry", "replay", "amend", "discard", "resolve")
RULES = ("pause", "resume", "consent")


def played(url: str, scenario: Sequence[Action], prepare: Prepare) -> tuple[list[Any], Tables]:
    """Play a scenario in an empty store; give what every call answered, and every table."""
    told = asyncio.run(_play(url, scenario, prepare))
    return comparable(told, tables(url))


async def _play(url: str, scenario: Sequence[Action], prepare: Prepare) -> list[Any]:
    clock = FrozenClock()
    async with Standfast(url, clock=clock) as sf:
        declare(sf)
        prepare(sf)
        play = Play(sf, clock)
        for action in (*scenario, Work(), Wait(AGAIN + 1), Work()):
            try:
                play.told.append(await action(play))
            except StandfastError as error:
                play.told.append(type(error).__name__)
        return play.told


# --- tables


def tables(url: str) -> Tables:
    """Read every table there is, whatever its name."""
    return _of_postgres(url) if url.startswith("postgres") else _of_sqlite(url)


def _of_sqlite(url: str) -> Tables:
    with closing(apsw.Connection(url)) as file:
        names = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: list(_rows(file.execute(f'SELECT * FROM "{name}"'))) for name in names}  # noqa: S608 - its own


def _rows(cursor: apsw.Cursor) -> Iterator[Row]:
    for row in cursor:
        yield dict(zip((name for name, *_ in cursor.description), row, strict=True))


def _of_postgres(url: str) -> Tables:
    with connect(url) as other:
        names = other.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        found: Tables = {}
        for (name,) in names:
            cursor = other.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name)))
            columns = [each.name for each in cursor.description or ()]
            found[name] = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
        return found


# --- what of them can be compared

NOT_COMPARED = frozenset({"timing", "sqlite_sequence", "clock"})
"""Measured by the machine's own clock, or by the engine."""
CHANCE = frozenset({"hash", "previous", "seq", "process", "pid", "host", "store"})
"""Columns that are not the same in any two stores: of no table."""
MAY_DIFFER: frozenset[tuple[str, str]] = frozenset({("job", "traits")})
"""Columns in which a store may say that it does not know what the other one knows."""
NUMBERS = frozenset({"n", "first_n", "last_n", "holder"})
"""Columns with the numbers of jobs, and below those with lists of them."""
NUMBER_LISTS = frozenset({"parents", "children"})
TELLING = ("journal", "told")
"""Tables with a row for each transaction: which ones shared a transaction is chance."""
COUNTING = ("counter", "counted")
"""Tables whose rows are added up."""
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
STORE = re.compile(r'(?:(?<="store":")|(?<="noted_in":"))[0-9a-f]{32}')
"""What the audit chain of a store begins with, and the name of the file beside it."""
WORKER = re.compile(rf"{re.escape(socket.gethostname())}-\d+-[0-9a-f]{{6}}")


def comparable(told: list[Any], found: Tables) -> tuple[list[Any], Tables]:
    """Give both with ids, numbers and workers told by their order, and without what is chance."""
    everything = json.dumps([told, found], default=str)
    named = {id_: f"id {place}" for place, id_ in enumerate(sorted(set(ID.findall(everything))))}
    numbered = {number: place for place, number in enumerate(sorted(row["n"] for row in found.get("body", [])))}
    found = {
        **found,
        "told": _flattened(found, TELLING),
        "counted": _added(found, COUNTING),
        "journal": [],
        "counter": [],
    }
    value = partial(_value, named, numbered)
    rows = {
        name: sorted(({column: value(name, column, row[column]) for column in row} for row in rows), key=repr)
        for name, rows in found.items()
        if name not in NOT_COMPARED
    }
    return [_renamed(named, each) for each in told], rows


def _value(named: dict[str, str], numbered: dict[int, int], table: str, column: str, value: Any) -> Any:
    if column in CHANCE or (table, column) in MAY_DIFFER:
        return None
    if column in NUMBERS:
        return numbered.get(value, value)
    if column in NUMBER_LISTS and value:
        return [numbered.get(number, number) for number in json.loads(value)]
    return _renamed(named, value)


def _renamed(named: dict[str, str], value: Any) -> Any:
    if isinstance(value, list):
        return [_renamed(named, each) for each in value]
    if not isinstance(value, str):
        return value
    return STORE.sub("store", WORKER.sub("worker", ID.sub(lambda found: named[found[0]], value)))


def _flattened(found: Tables, names: Sequence[str]) -> list[Row]:
    """Give a row for each thing and job that was told, whichever transaction told it."""
    rows = chain.from_iterable(found.get(name, []) for name in names)
    entries = [(row["at"], *entry) for row in rows for entry in json.loads(row["entries"])]
    return [
        {"at": at, "kind": kind, "queue": queue, "about": about, "more": json.dumps(more)}
        for at, kind, queue, jobs, *more in entries
        for about in jobs
    ]


def _added(found: Tables, names: Sequence[str]) -> list[Row]:
    """Give the sum of each counter."""
    sums: Counter[tuple[str, str]] = Counter()
    for row in chain.from_iterable(found.get(name, []) for name in names):
        sums[row["queue"], row["name"]] += row["value"]
    return [{"queue": queue, "name": name, "value": value} for (queue, name), value in sums.items()]


def differences(one: tuple[list[Any], Tables], other: tuple[list[Any], Tables]) -> list[str]:
    """Name what is not the same: answers first, then the rows of each table that only one of both has."""
    answers = [f"answer {n}: {a!r}, {b!r}" for n, (a, b) in enumerate(zip(one[0], other[0], strict=True)) if a != b]
    names = sorted(one[1].keys() | other[1].keys())
    return answers + [line for name in names for line in _unequal(name, one[1].get(name), other[1].get(name))]


def _unequal(name: str, one: list[Row] | None, other: list[Row] | None) -> list[str]:
    if one is None or other is None:
        return [f"only one of both has a table {name}"]
    left, right = Counter(map(repr, one)), Counter(map(repr, other))
    return [f"only one of both: {name} {row}" for row in [*(left - right), *(right - left)]]
