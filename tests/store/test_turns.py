"""Which jobs a transaction locks: all that its scripts will need, once and in order, before any of them goes on."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import msgspec
import pytest

import standfast.spine
import standfast.wings
import standfast.worker
from standfast.application.wings import ORDER, RIDERS
from standfast.lifecycle import JobRef, Move, State, Transition
from standfast.spine import apply as scripts
from standfast.spine import rounds
from standfast.store.scripts import Call, Write
from standfast.store.steps import Round, Script, lock_jobs
from standfast.wings.audit.words import Decision
from standfast.wings.letters import scripts as letters
from standfast.wings.letters.scripts import LetterDecision, Quarantine, Refusal

SAID = Decision(kind="quarantine")


def locked(script: Script[Any]) -> list[list[int]]:
    """Run a script against nothing, and give which jobs it locks, statement by statement."""
    found: list[list[int]] = []
    try:
        name, given = next(script)
        while True:
            if name == "lock_jobs" and isinstance(given, dict):
                found.append(msgspec.json.decode(given["numbers"]))
            name, given = script.send([])
    except StopIteration:
        return found


def moved(n: int) -> Transition:
    return Transition(n, 1, f"job-{n}", "mail", Move.REPLAY, State.DEAD)


def apart(n: int) -> Quarantine:
    return Quarantine(LetterDecision(JobRef(n, 1, f"job-{n}", "mail", State.DEAD), 1, SAID))


def refused(n: int) -> Refusal:
    return Refusal(n, 1, f"job-{n}", "mail", "denied", "first", SAID)


def test_the_first_that_locks_jobs_locks_those_of_all():
    round_ = Round(0.0, 0.0, "boot", RIDERS)
    calls = [
        Call(letters.quarantine, [apart(5), apart(2)]),
        Call(scripts.apply, [moved(9), moved(1)]),
        Call(letters.refuse, [refused(4), refused(9)]),
    ]
    assert locked(rounds.lock(round_, calls)) == [], "queues and keys come first"
    assert locked(lock_jobs(round_, [9, 1])) == [[1, 2, 4, 5, 9]]
    assert locked(lock_jobs(round_, [5, 2])) == []
    assert locked(lock_jobs(round_, [7])) == [[7]]


@pytest.mark.parametrize("script", [letters.amend, letters.quarantine])
def test_what_people_do_to_letters_takes_its_turn_behind_what_brings_jobs(script):
    assert ORDER.index(script) > ORDER.index(scripts.apply)


def test_a_purge_has_a_transaction_of_its_own():
    assert letters.purge.separate


def test_every_script_that_shares_a_round_has_its_turn():
    turns = {script.run for script in ORDER}
    found = {each.run: each for module in modules() for each in vars(module).values() if isinstance(each, Write)}
    assert len(found) > 60
    assert [script.name for script in found.values() if not script.separate and script.run not in turns] == []


def modules() -> Iterator[ModuleType]:
    """Give every module of ours that can declare scripts."""
    for package in (standfast.spine, standfast.wings, standfast.worker):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)
