"""Scripts for settings that every process reads from the store, whatever its own settings file says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from standfast.store.scripts import writes
from standfast.store.steps import Round, Script
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.words import Decision


class SharedSetting(NamedTuple):
    """A setting to put in force. `value` is JSON text, in one form for equal values."""

    name: str
    value: str
    by: str


@writes()
def publish(round_: Round, settings: Sequence[SharedSetting]) -> Script[list[None]]:
    """Put settings in force for every process: the last published one wins. A change goes on the audit chain."""
    for each in settings:
        if (yield "write_shared_setting", {**each._asdict(), "now": round_.now}):
            detail = {"setting": each.name, "value": msgspec.json.decode(each.value)}
            audit.record(round_, Decision(kind="settings", by=each.by, outcome="published", detail=detail))
    return [None] * len(settings)


def value(name: str) -> Script[str | None]:
    """Read a setting; None if no process ever published it."""
    rows = yield "shared_setting", {"name": name}
    return rows[0][0] if rows else None
