"""A filter is one Struct: its fields are the query's parameters, the commands' options and the form's fields."""

from __future__ import annotations

import inspect
import re

import click
import pytest

from standfast import Standfast
from standfast.cli.main import main
from standfast.dashboard.drawing import _environment
from standfast.doors.filters import Filter, FilterField, fields_of, names_of
from standfast.server.api_routes import ROUTES
from standfast.server.openapi import document
from standfast.wings.jobs.job_query import WantedJobs
from standfast.wings.letters.tools import list_dead_letters
from standfast.wings.records.letter_filter import FILTERS
from standfast.wings.records.letter_query import WantedLetters

FILTER_OF: dict[str, type[Filter]] = {
    "jobs": WantedJobs,
    "dead-letters": WantedLetters,
    "dead-letters/groups": WantedLetters,
}
COMMANDS: dict[str, type[Filter]] = {
    "jobs": WantedJobs,
    **{f"dead {name}": WantedLetters for name in ("list", "groups", "plan", "purge", "export")},
}
PAGING = {"limit", "cursor"}


def command(words: str) -> click.Command:
    """Find a command by what is typed for it."""
    found: click.Command = main
    for word in words.split():
        assert isinstance(found, click.Group)
        found = found.commands[word]
    return found


def form(fields: tuple[FilterField, ...], asked: dict[str, str]) -> str:
    """Draw the fields of a form."""
    macros = _environment().get_template("parts.html").module
    return str(macros.filter_fields(fields, asked))  # type: ignore[attr-defined]  # a macro of the template


def test_the_letters_that_doors_choose_by_are_those_the_queue_chooses_by():
    assert set(names_of(WantedLetters)) == set(FILTERS)


def test_the_jobs_that_doors_choose_by_are_those_the_queue_chooses_by():
    taken = set(inspect.signature(Standfast.jobs).parameters) - {"self", "reach"} - PAGING
    assert set(names_of(WantedJobs)) == taken


@pytest.mark.parametrize("path", FILTER_OF)
def test_the_fields_are_the_parameters_of_the_query(path):
    parameters = document(ROUTES)["paths"][f"/api/v1/{path}"]["get"]["parameters"]
    assert {each["name"] for each in parameters} - PAGING == set(names_of(FILTER_OF[path]))


@pytest.mark.parametrize("words", COMMANDS)
def test_the_fields_are_options_of_every_command_that_chooses(words):
    options = {option for each in command(words).params for option in each.opts}
    assert {f"--{name.replace('_', '-')}" for name in names_of(COMMANDS[words])} <= options


@pytest.mark.parametrize("shape", [WantedJobs, WantedLetters])
def test_the_fields_are_asked_for_by_the_form_and_what_was_asked_stays(shape):
    fields = fields_of(shape)
    asked = {field.name: field.about.choices[0] if field.about.choices else f"the {field.name}" for field in fields}
    drawn = form(fields, asked)
    assert re.findall(r' name="(\w+)"', drawn) == [field.name for field in fields]
    kept = re.findall(r'value="(the \w+|\w+)" selected|value="(the \w+)"', drawn)
    assert [one or other for one, other in kept] == list(asked.values())


def test_a_field_without_a_title_is_kept_but_not_asked_for():
    fields = tuple(field for field in fields_of(WantedLetters) if field.about.title is None)
    assert [field.name for field in fields] == ["fingerprint"]
    assert form(fields, {}).strip() == ""
    assert 'type="hidden" name="fingerprint" value="f1"' in form(fields, {"fingerprint": "f1"})


def test_agents_choose_letters_by_some_of_the_same_names():
    taken = set(inspect.signature(list_dead_letters).parameters) - {"agent"} - PAGING
    assert taken <= set(names_of(WantedLetters))
