"""Templates, and their filters for values. Every value is plain text on a page, never markup."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import msgspec
from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined

from standfast.dashboard.statics import versioned
from standfast.printable import printable as on_one_line
from standfast.printable import visible
from standfast.wings.records.figures import NOTHING, number, span

LONGEST_SHOWN = 20_000
"""Characters of a payload or a result that a page shows; the API returns all of it."""
MOST_INDENTED = 1 << 20
"""The longest indented text of a payload that is shown whole; a longer one is shown without indenting."""
MARKS = {
    **dict.fromkeys(
        ("completed", "resolved", "finished", "approved", "granted", "used", "verified", "up", "healthy"), "good"
    ),
    **dict.fromkeys(("dead", "failed", "denied", "stuck", "absent", "halted", "degraded", "partial"), "bad"),
    **dict.fromkeys(("held", "pending", "approval_pending", "indeterminate", "paused", "parked", "doubted"), "held"),
    **dict.fromkeys(("running", "started"), "busy"),
}
"""The mark of each state; every other state is calm."""


def draw(template: str, context: dict[str, Any]) -> str:
    """Render a template. An undefined name in it is a bug, and raises."""
    return _environment().get_template(template).render(context)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=_templates(),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=without_invisible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "ago": ago,
        "json": as_json,
        "line": line,
        "mark": mark,
        "moment": moment,
        "number": number,
        "part": part,
        "span": span,
        "whole_json": whole_json,
        "words": words,
    }
    made.globals |= {"static": versioned, "longest_shown": LONGEST_SHOWN}
    return made


def _templates() -> BaseLoader:
    """Find templates in this package, and in every wing that has some: their names are unique."""
    wings = (each for each in files("standfast.wings").iterdir() if (each / "templates").is_dir())
    nouns = (PackageLoader(f"standfast.wings.{each.name}") for each in wings)
    return ChoiceLoader([PackageLoader("standfast.dashboard"), *nouns])


def without_invisible(value: Any) -> Any:
    """Keep invisible characters out of pages, wherever a value is shown."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def read_moment(value: Any) -> datetime | None:
    """Read a time in any of the forms that views use."""
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    return value if isinstance(value, datetime) else None


def ago(value: Any) -> str:
    """Say how long ago or ahead something is."""
    at = read_moment(value)
    if at is None:
        return NOTHING
    passed = (datetime.now(UTC) - at).total_seconds()
    if abs(passed) < 1:
        return "just now"
    return f"in {span(-passed)}" if passed < 0 else f"{span(passed)} ago"


def moment(value: Any) -> str:
    """Write a time to the second, in the zone it is given in."""
    at = read_moment(value)
    return NOTHING if at is None else at.strftime("%Y-%m-%d %H:%M:%S ") + (at.tzname() or "")


def as_json(value: Any) -> str:
    """Format a value for reading, cut if it is long; no character of it can change the text direction."""
    return visible(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()[:LONGEST_SHOWN])


def whole_json(value: Any) -> str:
    """Format a value with nothing left out, for a person who must approve all of it."""
    raw = msgspec.json.encode(value)
    indented = msgspec.json.format(raw, indent=2)
    return visible((indented if len(indented) <= MOST_INDENTED else raw).decode())


def line(value: Any, longest: int = 300) -> str:
    """Write text from outside on one line, cut if it is long."""
    text = on_one_line(str(value))
    return text if len(text) <= longest else f"{text[:longest]}…"


def part(value: Any) -> str:
    """Quote a name as one part of an address."""
    return quote(str(value), safe="")


def words(value: Any) -> str:
    """Write one of our own names as words."""
    return str(value).replace("_", " ")


def mark(value: Any) -> str:
    """Return the mark of a state; icon and word express it too, not only the colour."""
    return MARKS.get(str(value), "calm")
