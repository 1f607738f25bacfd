"""Checks whether an effect of a letter may exist that no look has ruled out: then its payload must not change.

An amended job has other keys and another payload, so its checks could no longer find the old job's effects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from standfast.errors import NotVerified
from standfast.failure import Landed, Verdict
from standfast.job import Details, LedgerEntry, identity_of, keeps_ledger
from standfast.rules import ReplayMode
from standfast.spine.registry import Handler
from standfast.store.store import Store
from standfast.wings.effects.block import key_of
from standfast.wings.queues import card_scripts
from standfast.wings.queues.handler_cards import DEPENDS
from standfast.wings.records.reads import JobRecord, JobRow, KeptLook


class EffectRules(msgspec.Struct, frozen=True):
    """What decides whether a letter's effects are checked before they are repeated."""

    mode: ReplayMode
    names: tuple[str, ...]
    """The effects that the handler declares."""
    unverifiable: Collection[str] | None = None
    """The effects without a verify; None if this process cannot tell."""

    @property
    def checks_first(self) -> bool:
        """Whether a check comes before a repeat even if the handler does not use the ledger."""
        is_verifiable = self.unverifiable is None or not set(self.names) <= set(self.unverifiable)
        return self.mode != "replay" and bool(self.names) and is_verifiable

    def repeats_unchecked(self, entry: LedgerEntry) -> bool:
        """Return whether its handler says that this effect may happen twice: nothing looks for it, amended or not."""
        return self.mode == "replay" and self.unverifiable is not None and entry.label in self.unverifiable


async def check_effects_are_settled(store: Store, record: JobRecord, handler: Handler | None) -> None:
    """Raise unless every effect of a letter is done, or was found absent since it was begun."""
    row = record.row
    rules = await _published_rules(store, row) if handler is None else _declared_rules(handler)
    found = [entry.label for entry in record.effects if not _is_settled(entry, record.looks, rules)]
    if not found and rules.checks_first and not keeps_ledger(record.effects) and _is_in_doubt(record):
        found = list(rules.names)
    if found:
        raise _in_doubt(row, tuple(dict.fromkeys(found)))


def _declared_rules(handler: Handler) -> EffectRules:
    mode = handler.declaration.replay_mode
    if callable(handler.effects):
        return EffectRules(mode, (DEPENDS,))
    unverifiable = {effect.name for effect in handler.effects if not effect.verifiable}
    return EffectRules(mode, tuple(effect.name for effect in handler.effects), unverifiable)


async def _published_rules(store: Store, row: JobRow) -> EffectRules:
    """Return what is known of a handler that this process does not have."""
    for each in await store.read(card_scripts.published()):
        if (each.queue, each.name) == (row.queue, row.handler):
            return EffectRules(each.replay_mode, tuple(msgspec.json.decode(each.effects)))  # type: ignore[arg-type]
    return EffectRules("replay", ())


def _is_settled(entry: LedgerEntry, looks: Iterable[KeptLook], rules: EffectRules) -> bool:
    """Return whether an effect is done, or was found absent since it was last begun."""
    if entry.state == "done" or entry.is_step or rules.repeats_unchecked(entry):
        return True
    later = [look.verdict for look in looks if look.name == entry.name and look.at > entry.at]
    return (later[-1] if later else entry.verdict) == Verdict.ABSENT


def _is_in_doubt(record: JobRecord) -> bool:
    """Return whether an attempt may have landed, and no later look found that nothing did."""
    lines: list[dict[str, Any]] = [msgspec.json.decode(line) for line in record.history]
    doubts = [line["at"] for line in lines if line.get("landed") == Landed.MAYBE]
    since = {look.name: look.verdict for look in record.looks if doubts and look.at >= max(doubts)}
    return bool(doubts) and (not since or set(since.values()) != {Verdict.ABSENT})


def _in_doubt(row: JobRow, names: tuple[str, ...]) -> NotVerified:
    return NotVerified(
        f"{_shown(row, names)} of job {row.id} may exist, and a changed payload gets another key, under which no check "
        f"finds it; nothing was changed: check it first (standfast dead resolve app:sf {row.id} --reason …), and if it "
        f"is absent, amend it (standfast dead amend app:sf {row.id} JSON --reason …); if it exists or no check can "
        "tell, enqueue the new payload as a new job"
    )


def _shown(row: JobRow, names: tuple[str, ...]) -> str:
    if DEPENDS in names:
        return "an effect"
    identity = identity_of(row.id, msgspec.json.decode(row.details, type=Details).amended)
    return "effect " + " and ".join(f"{name!r} (key {key_of(identity, name)})" for name in names)
