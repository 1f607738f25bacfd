"""The filter options of commands, made from the fields of a filter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
import msgspec

from standfast.cli.group import Command
from standfast.cli.parameters import duration, moment
from standfast.doors.filters import Described, FilterField, fields_of
from standfast.lifecycle import State


def filter_options(shape: type[msgspec.Struct]) -> Callable[[Command], Command]:
    """Add an option to a command for each field of a filter."""

    def decorate(command: Command) -> Command:
        fields = fields_of(shape)
        views = next((field.about.choices for field in fields if field.name == "view"), ())
        for field in reversed(fields):
            command = _option(field, views if field.name == "state" else ())(command)
        return command

    return decorate


def filter_from(shape: type[msgspec.Struct], options: dict[str, Any]) -> dict[str, Any]:
    """Return the filter that these options make. A view given as --state (as tables show it) is treated as a view."""
    found = {field.name: options[field.attribute] for field in fields_of(shape)}
    chosen = {name: value for name, value in found.items() if value is not None}
    if "view" in found and chosen.get("state", State.QUEUED) not in set(State):
        view = chosen.pop("state")
        if chosen.setdefault("view", view) != view:
            raise click.UsageError(f"--state {view} and --view {chosen['view']} exclude each other; give one of them")
    return chosen


def _option(field: FilterField, more: Sequence[str] = ()) -> Callable[[Command], Command]:
    about = field.about
    if about.is_flag:
        return click.option(_name(field), field.attribute, is_flag=True, default=None, help=about.help)
    choices = tuple(dict.fromkeys((*about.choices, *more)))
    kind = click.Choice(choices) if choices else _kind(about)
    metavar = None if about.is_duration else "TIME" if about.is_moment else about.example
    return click.option(_name(field), field.attribute, type=kind, metavar=metavar, help=about.help)


def _name(field: FilterField) -> str:
    return f"--{field.name.replace('_', '-')}"


def _kind(about: Described) -> Callable[[str], Any] | None:
    return duration if about.is_duration else moment if about.is_moment else None
