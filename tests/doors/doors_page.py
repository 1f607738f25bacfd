"""Writes docs/doors.md from the table of verbs."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from standfast.doors.verbs import OF_THE_SHELL, VERBS, Offer, Why, offers

HEAD = """# Every verb, every interface

## How a command finds its store and its job

- `--url` names the store, before the command or after it (`standfast --url shop.db jobs`). Without it, the command
  uses the store of the application `app:sf` that comes before the other arguments (`standfast status app:sf ID`),
  otherwise the one that `$STANDFAST_URL` or `standfast.toml` names, otherwise `./standfast.db`. A command that only
  reads or decides publishes nothing of that application's code. A queue or session may have a name of the form
  `app:sf`: it is read as a name if the command needs one there and the directory has no module of that name.
- You can shorten the id of a job, workflow, approval or redrive to its beginning: at least four of its digits, with or
  without the dashes, as long as it is unique. If it is not, the command changes nothing, lists the candidates and
  exits with 2.

## The table

Every verb of a `Standfast`, and its name over REST (under `/api/v1`), on the command line, on the dashboard and over
MCP. If an interface does not offer a verb, a letter says why:
"""
REASONS: list[Why] = [why for why in Why if why != Why.PART]
LETTERS: dict[Why, str] = {why: letter for letter, why in zip("abcdefghijklmnop", REASONS, strict=False)}


def page() -> str:
    """Give the page."""
    shown = [verb for verb in VERBS if not all(offer == Why.PART for offer in verb[1:])]
    reasons = [f"- *{letter}*: {why}" for why, letter in LETTERS.items()]
    rows = [_row(f"`{verb.name}`", map(_cell, verb[1:])) for verb in shown]
    own = [_row(f"`{name}`", [what]) for name, what in OF_THE_SHELL.items()]
    verbs = [_row("verb", ["REST", "command", "dashboard", "MCP"]), _row("---", ["---"] * 4), *rows]
    commands = [_row("command", ["what it does"]), _row("---", ["---"]), *own]
    lines = [HEAD, *reasons, "", *verbs, "", "Commands that are not a verb of a store:", "", *commands]
    return "\n".join(lines) + "\n"


def _cell(offer: Offer) -> str:
    return f"*{LETTERS[offer]}*" if isinstance(offer, Why) else "<br>".join(f"`{each}`" for each in offers(offer))


def _row(first: str, rest: Iterable[str]) -> str:
    return f"| {' | '.join([first, *rest])} |"


if __name__ == "__main__":
    sys.stdout.write(page())
