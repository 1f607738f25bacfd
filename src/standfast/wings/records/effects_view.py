"""The effects of a job as a person sees them: every look, and the state of each effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from standfast.failure import Verdict
from standfast.job import LedgerEntry, label_of
from standfast.wings.records.reads import KeptLook

Moment = Callable[[float | None], Any]


def effects_shown(entries: Sequence[LedgerEntry], looks: Sequence[KeptLook], moment: Moment) -> list[dict[str, Any]]:
    """Show effects and steps in the order of time: each look, and the state of each.

    An effect that was called with several arguments is listed once for each, with their hash.
    """
    calls = Counter(entry.label for entry in entries)
    shown = [(entry.at, _effect(entry, moment, several=calls[entry.label] > 1)) for entry in entries]
    standing = {entry.name: entry for entry in entries}
    earlier = [(look.at, _look(look, moment)) for look in _told_besides(looks, standing)]
    return [each for _, each in sorted([*earlier, *shown], key=lambda pair: pair[0])]


def _told_besides(looks: Sequence[KeptLook], standing: dict[str, LedgerEntry]) -> Iterator[KeptLook]:
    """Yield the looks that add something to an effect's state: the last look is what the ledger shows."""
    newest = {look.name: look for look in looks}
    for look in looks:
        entry = standing.get(look.name)
        if not (look is newest[look.name] and entry is not None and _shows(entry, look)):
            yield look


def _shows(entry: LedgerEntry, look: KeptLook) -> bool:
    """Return whether an effect's state says the same as this look."""
    same = (entry.at, entry.attempt) == (look.at, look.attempt)
    return same and (entry.verdict == look.verdict or (entry.state == "done" and look.verdict == Verdict.VERIFIED))


def found_effects(effects: Sequence[dict[str, Any]]) -> list[str]:
    """Name the effects and steps that are there, by what is last known of each."""
    last = {(each["name"], each.get("arguments")): each["verdict"] for each in effects}
    return list(dict.fromkeys(name for (name, _), verdict in last.items() if verdict == Verdict.VERIFIED))


def _look(look: KeptLook, moment: Moment) -> dict[str, Any]:
    shown = {"name": label_of(look.name), "verdict": look.verdict, "receipt": _read(look.receipt)}
    left_out = {"receipt_bytes": look.left_out} if look.left_out else {}
    return {**shown, "at": moment(look.at), "attempt": look.attempt, **left_out}


def _effect(entry: LedgerEntry, moment: Moment, *, several: bool) -> dict[str, Any]:
    """Show the state of an effect: a receipt is evidence, an intent alone says nothing."""
    told = Verdict.VERIFIED if entry.state == "done" else Verdict.INDETERMINATE
    looked = entry.verdict if entry.state != "done" and entry.verdict in list(Verdict) else None
    shown = {"name": entry.label, "verdict": str(looked or told), "receipt": _read(entry.receipt)}
    more: dict[str, Any] = {"at": moment(entry.at), "attempt": entry.attempt}
    if several and entry.arguments is not None:
        more["arguments"] = entry.arguments
    if entry.left_out:
        more["receipt_bytes"] = entry.left_out
    return {**shown, **more, "late": True} if entry.late else {**shown, **more}


def _read(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
