"""The reference of the command line, generated from the commands' own help."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from standfast.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = "reference/cli.md"
WIDTH = 100
HEAD = """# Command line

Every command, as `standfast COMMAND --help` prints it. [Every verb, every interface](../doors.md) says how a command
finds its store, and which Python call or route does the same.
"""


def page() -> str:
    """Return the page."""
    return HEAD + "".join(_section(path, command) for path, command in _commands(("standfast",), main))


def _commands(path: tuple[str, ...], command: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from _commands((*path, name), command.commands[name])


def _section(path: tuple[str, ...], command: click.Command) -> str:
    name = " ".join(path)
    with click.Context(command, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH) as context:
        return f"\n## {name}\n\n```text\n{command.get_help(context)}\n```\n"
