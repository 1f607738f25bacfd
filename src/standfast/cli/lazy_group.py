"""A group that imports a command only when it is used: help is instant, and each command loads only what it needs."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click

from standfast.cli.group import CommandGroup


class Place(NamedTuple):
    """Where a command is found, as `module:name` below `standfast`, and the first sentence of its help."""

    name: str
    found_at: str
    says: str

    def load(self) -> click.Command:
        """Import it."""
        module, _, name = self.found_at.partition(":")
        found: click.Command = getattr(import_module(f"standfast.{module}"), name)
        return found

    def shown(self, limit: int) -> str:
        """Return the command's help, cut to this many characters."""
        return click.Command(self.name, help=self.says).get_short_help_str(limit)


class LazyCommands(MutableMapping[str, click.Command]):
    """Commands by name, each imported on first use."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = {each.name: each for each in places}
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            self._loaded[name] = self.places[name].load()
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        self._loaded.pop(name, None)
        del self.places[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


class LazyGroup(CommandGroup):
    """Lists its commands from the text in their places, and imports none of them for that."""

    def __init__(self, name: str, places: Sequence[Place], **options: Any) -> None:
        super().__init__(name, **options)
        self._places = LazyCommands(places)
        self.commands = self._places

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what every command is for."""
        names = self.list_commands(ctx)
        limit = formatter.width - 6 - max(map(len, names))
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._places.places[name].shown(limit)) for name in names])
