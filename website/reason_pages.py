"""One page for each reason code, from the catalogue in `standfast.failure` and the texts in `reason_texts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from standfast.failure import CATALOGUE, Action, Class, Reason
from standfast.failure.letter_advice import LOOK_FIRST, NOT_LANDED, TELLS_OF_EFFECT
from website.navigation import REASONS, tree
from website.reason_texts import TEXTS

if TYPE_CHECKING:
    from collections.abc import Iterator

CLASSES = {
    Class.TRANSIENT: "Repeating can help, so standfast retries it while attempts are left.",
    Class.PERMANENT: "Repeating cannot help until something changes, so standfast does not retry it.",
    Class.UNKNOWN: "The evidence does not say whether repeating helps, so standfast treats it like `transient`.",
}
ACTIONS = {
    Action.QUARANTINE: "The built-in policy quarantines the letter: no rule replays it automatically.",
    Action.MANUAL_REVIEW: "The built-in policy leaves the letter to a person.",
}


def pages() -> Iterator[tuple[str, str]]:
    """Yield each page as its file and its text: the index first."""
    yield f"{REASONS}/index.md", index()
    for reason in CATALOGUE.values():
        yield f"{REASONS}/{reason.code}.md", page(reason)


def index() -> str:
    """Return the list of all codes."""
    rows = (f"| [`{code}`]({code}.md) | `{each.cls}` | {TEXTS[code].happened} |" for code, each in CATALOGUE.items())
    return "\n".join((INDEX_HEAD, "| code | class | what happened |", "|---|---|---|", *rows, "", tree("", CATALOGUE)))


def page(reason: Reason) -> str:
    """Return the page of one code."""
    text = TEXTS[reason.code]
    return "\n\n".join(
        (
            f"# {reason.code}",
            f"Class `{reason.cls}`. {CLASSES[reason.cls]} {ACTIONS[reason.action]} {_alert(reason)}",
            f"## What happened\n\n{text.happened}",
            f"## What is safe\n\n{text.safe}",
            f"## What to do\n\n{reason.advice}",
            _where_it_differs(reason),
            FOOT,
        )
    )


def _alert(reason: Reason) -> str:
    if reason.loud:
        return "A letter with this code raises an [alert](../sessions.md#alerts) unless its queue says otherwise."
    return "A letter with this code raises no alert unless its queue says otherwise."


def _where_it_differs(reason: Reason) -> str:
    """Say how the advice depends on what is known about the effect."""
    if reason.code in NOT_LANDED:
        return f"If nothing can have happened, the advice reads: *{NOT_LANDED[reason.code]}*"
    if reason.code in TELLS_OF_EFFECT:
        return "`standfast status ID` and `standfast dead show ID` print this advice."
    return f"If an attempt may have had its effect, the advice begins with: *{LOOK_FIRST}*"


INDEX_HEAD = """# Reason codes

Every job that fails, waits or stops names a reason code: in `standfast status`, `dead list`, REST, MCP, the dashboard
and logs. This is every code that standfast itself writes. A handler may use its own
(`Permanent("…", reason_code="card_expired")`); such a code is treated by its class.

`transient` is retried. `permanent` is not. `unknown` is retried, and counted as possibly done.
"""
FOOT = """See also [dead letters](../dead-letters.md), [effects](../effects.md), [how an error is
judged](../failures.md#how-an-error-is-judged) and [all reason codes](index.md)."""
