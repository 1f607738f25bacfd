"""Writes docs/doors.md from the table of verbs."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from standfast.doors.verbs import OF_THE_SHELL, VERBS, Offer, Why, offers

HEAD = """# Which door offers what

Every verb of a `Standfast`, and what it is called over REST (under `/api/v1`), on the command line, on the
dashboard and over MCP. Where a door does not offer one, a letter says why:
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
    lines = [HEAD, *reasons, "", *verbs, "", "Commands that are no verb of a store:", "", *commands]
    return "\n".join(lines) + "\n"


def _cell(offer: Offer) -> str:
    return f"*{LETTERS[offer]}*" if isinstance(offer, Why) else "<br>".join(f"`{each}`" for each in offers(offer))


def _row(first: str, rest: Iterable[str]) -> str:
    return f"| {' | '.join([first, *rest])} |"


if __name__ == "__main__":
    sys.stdout.write(page())
