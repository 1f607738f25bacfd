"""Options are said once and mean the same everywhere: to a type checker, to an editor, and when they are checked."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import get_args, get_type_hints

import pytest

from standfast import Standfast, rules
from standfast.application import registering
from standfast.failure import Class, Landed
from standfast.lifecycle import LETTERS
from standfast.spine.accept import OPTIONS
from standfast.typed import job_options, letter_options, queue_options, reply
from standfast.typed.job_options import EnqueueManyOptions, JobOptions, RunOptions, ScheduleOptions, StepOptions
from standfast.typed.letter_options import LetterFilter
from standfast.views import REPLAY_STATUSES
from standfast.wings.schedules.verbs import REFUSED
from standfast.wings.workflows.verbs import NOT_FOR_STEPS
from tests.typing import sync_stub

MODULES = [job_options, letter_options, queue_options, reply, registering]


def meanings(module: ModuleType) -> dict[str, dict[str, str | None]]:
    """Give the fields of each class of a module, with the docstring under each."""
    tree = ast.parse(Path(inspect.getfile(module)).read_text(encoding="utf-8"))
    return {node.name: _fields(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _fields(node: ast.ClassDef) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for place, part in enumerate(node.body):
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            below = node.body[place + 1] if place + 1 < len(node.body) else None
            text = below.value if isinstance(below, ast.Expr) else None
            found[part.target.id] = str(text.value) if isinstance(text, ast.Constant) else None
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_option_says_what_it_means(module):
    found = meanings(module)
    assert found
    assert [f"{name}.{field}" for name, fields in found.items() for field, text in fields.items() if not text] == []


def test_the_options_of_a_queue_are_its_rules_in_name_and_meaning():
    assert meanings(queue_options)["QueueOptions"] == meanings(rules)["QueueRules"]


def test_the_options_of_a_job_are_those_that_are_checked():
    assert set(JobOptions.__annotations__) == set(OPTIONS)
    assert set(EnqueueManyOptions.__annotations__) == {*OPTIONS, "keys", "otherwise", "tx"}


def test_a_schedule_and_a_step_are_offered_nothing_that_they_refuse():
    assert set(ScheduleOptions.__annotations__) == {*OPTIONS, "handler"} - {*REFUSED, "at"}
    assert set(StepOptions.__annotations__) == set(OPTIONS) - NOT_FOR_STEPS


def test_the_options_of_a_handler_and_of_a_call_are_the_parameters_they_stand_for():
    handler = set(inspect.signature(Standfast.handler).parameters) - {"self", "queue", "input", "unknown"}
    assert set(registering.HandlerOptions.__annotations__) == handler
    call = set(inspect.signature(Standfast.run).parameters) - {"self", "handler", "params", "unknown"}
    assert set(RunOptions.__annotations__) == call


def test_a_filter_of_letters_takes_the_words_that_letters_have():
    given = get_type_hints(LetterFilter)
    words: dict[str, Iterable[str]] = {
        "class": Class,
        "landed": Landed,
        "state": LETTERS,
        "replay_status": REPLAY_STATUSES,
    }
    taken = {name: {word for kind in get_args(given[name]) for word in get_args(kind)} for name in words}
    assert taken == {name: {str(word) for word in known} for name, known in words.items()}


@pytest.mark.parametrize("option", [*OPTIONS, "handler", "otherwise", "tx"])
def test_the_help_of_enqueue_names_every_option(option):
    assert f"`{option}`" in str(Standfast.enqueue.__doc__)


def test_no_verb_takes_just_any_option():
    """What is annotated Never takes none: it is there to name the option that was meant."""
    loose = [
        f"{owner}.{name}"
        for owner, names in sync_stub.verbs().items()
        for name in names
        for parameter in inspect.signature(getattr(sync_stub.kind_of(owner), name)).parameters.values()
        if parameter.kind is parameter.VAR_KEYWORD and not str(parameter.annotation).startswith(("Unpack[", "Never"))
    ]
    assert loose == []
