"""The command line inside another program's: `manage.py standfast …`, `flask standfast …`."""

from __future__ import annotations

import os

import click

from standfast.application import Standfast
from standfast.cli.applications import OWN_ARGUMENT
from standfast.cli.main import main


def run_embedded(app: str, sf: Standfast, arguments: list[str], name: str) -> None:
    """Run a command for a known application: the user types neither the application nor its store.

    `app` is how another process finds the application. The command ends this program, with its exit code.
    """
    os.environ["STANDFAST_URL"] = sf.settings.url.value
    main.main(args=with_application(app, arguments), prog_name=name)


def with_application(app: str, arguments: list[str]) -> list[str]:
    """Insert the application before the arguments of a command that takes one, unless they already name one."""
    command = main.get_command(click.Context(main), arguments[0]) if arguments else None
    takes_one = command is not None and any(OWN_ARGUMENT in (each.metavar or "") for each in _words(command))
    named = len(arguments) > 1 and ":" in arguments[1]
    return [arguments[0], app, *arguments[1:]] if takes_one and not named else arguments


def _words(command: click.Command) -> list[click.Argument]:
    return [each for each in command.params if isinstance(each, click.Argument)]
