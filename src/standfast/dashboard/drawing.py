"""Templates, and how values are written in them. Everything is text to a page: nothing in a value is markup."""

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
"""Characters of a payload or a result that a page shows; the API gives the whole."""
MOST_INDENTED = 1 << 20
"""Characters that indenting may make of a payload that is shown whole; a deeper one is written without."""
MARKS = {
    **dict.fromkeys(
        ("completed", "resolved", "finished", "approved", "granted", "used", "verified", "up", "healthy"), "good"
    ),
    **dict.fromkeys(("dead", "failed", "denied", "stuck", "absent", "halted", "degraded", "partial"), "bad"),
    **dict.fromkeys(("held", "pending", "approval_pending", "indeterminate", "paused", "parked", "doubted"), "held"),
    **dict.fromkeys(("running", "started"), "busy"),
}
"""What a word means at a glance; every other one is calm."""


def draw(template: str, context: dict[str, Any]) -> str:
    """Draw a template. A name in it that nothing stands for is a mistake of ours, and is raised."""
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
    """Find templates in the frame, and in every wing that has some: their names stand once."""
    wings = (each for each in files("standfast.wings").iterdir() if (each / "templates").is_dir())
    nouns = (PackageLoader(f"standfast.wings.{each.name}") for each in wings)
    return ChoiceLoader([PackageLoader("standfast.dashboard"), *nouns])


def without_invisible(value: Any) -> Any:
    """Have nothing invisible on a page, wherever a value stands there."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def read_moment(value: Any) -> datetime | None:
    """Read a time, however it is given."""
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    return value if isinstance(value, datetime) else None


def ago(value: Any) -> str:
    """Say how long ago, or in how long, something is."""
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
    """Write a value for reading, cut where it is long; no character of it turns the direction of writing."""
    return visible(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()[:LONGEST_SHOWN])


def whole_json(value: Any) -> str:
    """Write a value with nothing left out, for a person who must approve all of it."""
    raw = msgspec.json.encode(value)
    indented = msgspec.json.format(raw, indent=2)
    return visible((indented if len(indented) <= MOST_INDENTED else raw).decode())


def line(value: Any, longest: int = 300) -> str:
    """Write text from outside on one line, cut where it is long."""
    text = on_one_line(str(value))
    return text if len(text) <= longest else f"{text[:longest]}…"


def part(value: Any) -> str:
    """Write a name as one part of an address."""
    return quote(str(value), safe="")


def words(value: Any) -> str:
    """Write one of our own names as words."""
    return str(value).replace("_", " ")


def mark(value: Any) -> str:
    """Say what a state means at a glance; the sign and the word say it too, not the colour alone."""
    return MARKS.get(str(value), "calm")
