"""The short way of a plain job and the long way of every other one leave the same store behind.

Random scenarios are played in two stores, one of which is forced onto the long way. At the end every answer and every
row of every table must be the same, but for what is chance: see `twin.py`.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from standfast import Standfast
from standfast.testing import FrozenClock
from standfast.worker import claimer
from tests.store.twin import (
    AGAIN,
    DEEDS,
    QUEUES,
    RULES,
    VERBS,
    Action,
    Enqueue,
    EnqueueMany,
    Flow,
    Operate,
    Prepare,
    Rule,
    Wait,
    Work,
    differences,
    played,
)


def force_long_way(sf: Standfast) -> None:
    """Have every job pass every wing, plain ones too."""
    engine = sf._store._engine  # noqa: SLF001 - no user needs this
    given = engine._scripts  # noqa: SLF001
    engine._scripts = replace(given, riders=msgspec.structs.replace(given.riders, shortcuts=False))  # noqa: SLF001


def leave_alone(sf: Standfast) -> None:
    """Have jobs go whichever way they go."""


# --- scenarios

deeds = st.sampled_from([*DEEDS, "return", "return", "return"])
payloads = st.fixed_dictionaries(
    {"n": st.integers(0, 3), "do": deeds}, optional={"tenant": st.sampled_from(["acme", "umbrella"])}
)
options = st.fixed_dictionaries(
    {},
    optional={
        "idempotency_key": st.sampled_from(["k1", "k2"]),
        "thread_key": st.sampled_from(["t1", "t2"]),
        "session": st.just("session"),
        "delay": st.sampled_from([1, AGAIN]),
        "priority": st.integers(-2, 2),
        "labels": st.just({"tenant": "acme"}),
        "attempts": st.integers(1, 2),
        "risk": st.just("high"),
    },
)
plain_jobs = st.builds(
    Enqueue, st.just("plain"), st.fixed_dictionaries({"n": st.integers(0, 9), "do": deeds}), st.just({})
)
jobs = st.builds(Enqueue, st.sampled_from([*QUEUES]), payloads, st.one_of(st.just({}), options))
actions: st.SearchStrategy[Action] = st.one_of(
    plain_jobs,
    plain_jobs,
    jobs,
    jobs,
    st.builds(EnqueueMany, st.sampled_from([*QUEUES]), st.lists(payloads, min_size=1, max_size=3).map(tuple)),
    st.builds(Flow, st.lists(payloads, min_size=1, max_size=3).map(tuple)),
    st.just(Work()),
    st.just(Work()),
    st.builds(Wait, st.sampled_from([0.5, AGAIN + 1, 61.0])),
    st.builds(Operate, st.sampled_from(VERBS), st.integers(0, 20)),
    st.builds(Rule, st.sampled_from(RULES)),
)
scenarios = st.lists(actions, min_size=1, max_size=12)
EXAMPLES = settings().max_examples // 2
"""Each one opens two stores: fewer of them than of what runs in memory, and as many more in a soak."""


def job(do: str = "return", queue: str = "plain", **options: Any) -> Action:
    return Enqueue(queue, payload(do), options)


def payload(do: str = "return") -> dict[str, Any]:
    return {"n": 1, "do": do, "tenant": "acme"}


EVERYTHING: list[Action] = [
    *(job(do) for do in DEEDS),
    *(job("fail once", queue, session="session") for queue in QUEUES),
    *(job(queue=queue, thread_key="t1") for queue in ("ordered", "collected", "limited", "rated", "plain") * 2),
    *(job(do, idempotency_key="k1") for do in ("return", "return", "refuse")),
    EnqueueMany("shallow", (payload(), payload())),
    Flow((payload(), payload("refuse"), payload())),
    Flow((payload("fail once"), payload("nothing"))),
    Work(),
    Rule("consent"),
    Wait(AGAIN + 1),
    job(thread_key="t1", priority=2),
    Work(),
    *(Operate(verb, place) for place, verb in enumerate(VERBS)),
    *(Operate("replay", place) for place in range(20)),
    Rule("pause"),
    job("snooze", delay=1),
    Wait(61.0),
    Work(),
    Rule("resume"),
]
"""Every feature once: what chance leaves out of a short run."""


@pytest.fixture(autouse=True)
def _one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one job of a queue after the other, however busy the machine is: none here waits for another."""
    monkeypatch.setattr(claimer, "A_MOMENT", 60.0)
    for module in ("lifecycle", "wings.letters.scripts"):  # by chance, it differs in each run
        monkeypatch.setattr(f"standfast.{module}.token_hex", lambda _bytes: "mark")


# --- stores

Empty = Callable[[], AbstractContextManager[str]]


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a store that nobody has used, to be copied: making one takes longer than most scenarios."""
    path = tmp_path_factory.mktemp("empty") / "queue.db"
    asyncio.run(open_and_close(path))
    return path


async def open_and_close(path: Path) -> None:
    async with Standfast(path, clock=FrozenClock()):
        pass


@contextmanager
def copied(path: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as place:
        yield str(shutil.copy(path, Path(place) / "queue.db"))


@pytest.fixture(params=["file", "postgres"])
def empty(request: pytest.FixtureRequest) -> Empty:
    """Give empty stores, as many as are asked for."""
    if request.param == "file":
        return partial(copied, request.getfixturevalue("empty_file"))
    lent: Empty = request.getfixturevalue("_schemas").lent
    return lent


def both(empty: Empty, one: Sequence[Action], other: Sequence[Action], prepare: Prepare = force_long_way) -> list[str]:
    """Play a scenario in each of two stores, the second one prepared; give what differs."""
    with empty() as url:
        left = played(url, one, leave_alone)
    with empty() as url:
        return differences(left, played(url, other, prepare))


@settings(
    max_examples=EXAMPLES,
    phases=[phase for phase in Phase if phase is not Phase.explain],  # which takes minutes here
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(scenario=scenarios)
@example(scenario=EVERYTHING)
@pytest.mark.timeout(600)
def test_both_ways_leave_the_same_store_behind(empty: Empty, scenario: list[Action]):
    assert both(empty, scenario, scenario) == []


# --- the comparison itself: whatever a user could see must be seen to differ


DIFFERENT: dict[str, tuple[Action, Action]] = {
    "a result": (job("return"), job("nothing")),
    "an end": (job("return"), job("refuse")),
    "a repeat": (job("return"), job("fail once")),
    "a priority": (job(), job(priority=1)),
    "a label": (job(), job(labels={"tenant": "acme"})),
    "a key": (job(idempotency_key="k1"), job(idempotency_key="k2")),
    "a thread": (job(thread_key="t1"), job(thread_key="t2")),
    "a session": (job(), job(session="session")),
    "a time": (job(delay=1), job(delay=2)),
    "a limit": (job("fail", "limited"), job("fail", "other")),
    "an effect": (job("fail", "effects"), job("fail", "manual")),
    "a pause": (Rule("pause"), Rule("resume")),
    "one job more": (EnqueueMany("plain", (payload(),)), EnqueueMany("plain", ())),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_the_comparison_sees(empty: Empty, what: str):
    one, other = DIFFERENT[what]
    assert both(empty, [one, Work()], [other, Work()], leave_alone) != []
    assert both(empty, [one, Work()], [one, Work()], leave_alone) == []
