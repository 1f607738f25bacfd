"""The options by which commands choose, made from a filter's fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec

from standfast.cli.group import Command
from standfast.cli.parameters import duration
from standfast.doors.filters import FilterField, fields_of


def filter_options(shape: type[msgspec.Struct]) -> Callable[[Command], Command]:
    """Give a command an option for each field of a filter."""

    def decorate(command: Command) -> Command:
        for field in reversed(fields_of(shape)):
            command = _option(field)(command)
        return command

    return decorate


def filter_from(shape: type[msgspec.Struct], options: dict[str, Any]) -> dict[str, Any]:
    """Give the filter that these options make."""
    found = {field.name: options[field.attribute] for field in fields_of(shape)}
    return {name: value for name, value in found.items() if value is not None}


def _option(field: FilterField) -> Callable[[Command], Command]:
    about = field.about
    kind = click.Choice(about.choices) if about.choices else duration if about.is_duration else None
    metavar = None if about.is_duration else about.example
    return click.option(
        f"--{field.name.replace('_', '-')}", field.attribute, type=kind, metavar=metavar, help=about.help
    )
