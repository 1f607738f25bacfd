"""An id given by its beginning: as many digits as make it unique."""

from __future__ import annotations

import re

from standfast.errors import ConfigurationError
from standfast.spine.ids import id_of
from standfast.store.steps import Script
from standfast.store.store import Store

DIGITS = 32
SHORTEST = 4
"""The fewest digits of a beginning: fewer would be a slip more often than a choice."""
MOST_SHOWN = 5
STATEMENTS = {
    "job": "job_ids_between",
    "workflow": "workflow_ids_between",
    "approval": "approval_ids_between",
    "redrive": "redrive_ids_between",
}
"""The statement that looks up the ids of each kind of thing, by an index."""
_BEGINNING = re.compile(rf"[0-9a-f]{{{SHORTEST},{DIGITS - 1}}}")


async def full_id(store: Store, given: str, what: str) -> str:
    """Complete an id. A text that is not the beginning of an id in this store is returned as it is."""
    if what not in STATEMENTS:
        raise ConfigurationError.unknown("kind of id", what, STATEMENTS)
    digits = id_of(given).replace("-", "").lower()
    if not _BEGINNING.fullmatch(digits):
        return given
    found = await store.read(_between(STATEMENTS[what], digits))
    if len(found) > 1:
        shown = ", ".join(found[:MOST_SHOWN])
        more = " and more" if len(found) > MOST_SHOWN else ""
        raise ConfigurationError(f"several {what}s have ids that begin with {given!r}: {shown}{more}; write more of it")
    return found[0] if found else given


def _between(statement: str, digits: str) -> Script[list[str]]:
    bounds = {"low": _whole(digits, "0"), "high": _whole(digits, "f")}
    return [id_ for (id_,) in (yield statement, {**bounds, "most": MOST_SHOWN + 1})]


def _whole(digits: str, fill: str) -> str:
    """Write an id as UUIDs are written: bounds of that form sort alike in every collation of a server."""
    all_ = digits.ljust(DIGITS, fill)
    return "-".join((all_[:8], all_[8:12], all_[12:16], all_[16:20], all_[20:]))
