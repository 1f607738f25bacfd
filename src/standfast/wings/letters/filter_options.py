"""The options by which commands choose letters, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from standfast.cli.parameters import duration
from standfast.failure import Class, Landed
from standfast.lifecycle import REPLAY_STATUSES

Command = TypeVar("Command", bound=Callable[..., Any])

OPTIONS = (
    click.option("--queue", help="Only of this queue."),
    click.option("--reason-code", help="Only those that stopped for this reason, or whose last attempt did."),
    click.option("--cause", help="Only those whose last attempt failed for this reason."),
    click.option("--class", "failure_class", type=click.Choice([str(it) for it in Class]), help="Can repeating help?"),
    click.option("--landed", type=click.Choice([str(it) for it in Landed]), help="May the effect exist?"),
    click.option("--replay-status", type=click.Choice(REPLAY_STATUSES), help="Only at this point of triage."),
    click.option("--fingerprint", help="Only those that stopped alike."),
    click.option("--older-than", type=duration, help="Only those that stopped at least this long ago."),
)


def letter_filters(command: Command) -> Command:
    """Give a command the options that choose letters."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def wanted(options: dict[str, Any]) -> dict[str, Any]:
    """Give the filter that these options make."""
    named = {"class" if name == "failure_class" else name: value for name, value in options.items()}
    return {name: value for name, value in named.items() if value is not None}
