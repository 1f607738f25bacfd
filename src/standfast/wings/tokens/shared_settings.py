"""Who is in which groups, which further names hide their values, and how handlers replay that do not say so themselves.

Published by processes that work, read by all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from standfast import redact
from standfast.rules import ReplayMode
from standfast.spine.accept import user
from standfast.store.store import Store
from standfast.wings.effects.default_replay import DefaultReplay
from standfast.wings.queues.declarations import Declarations
from standfast.wings.tokens import settings_scripts
from standfast.wings.tokens.settings_scripts import SharedSetting

GROUPS = "groups"
HIDDEN_NAMES = "redact"
REPLAY = "replay"

_groups = msgspec.json.Decoder(dict[str, list[str]]).decode
_names = msgspec.json.Decoder(list[str]).decode
_mode = msgspec.json.Decoder(ReplayMode).decode


class SharedSettings:
    """`[groups]`, `[redact]` and `[store] replay` of this process's file, where it has them, and what the store has."""

    def __init__(
        self,
        store: Store,
        declared: Declarations,
        *,
        groups: Mapping[str, Sequence[str]] | None,
        hidden: Sequence[str] | None,
        replay: DefaultReplay,
    ) -> None:
        self._store = store
        self._replay = replay
        self._written: dict[str, Any] = {}
        if groups is not None:
            self._written[GROUPS] = {person: sorted(set(theirs)) for person, theirs in groups.items()}
        if hidden is not None:
            self._written[HIDDEN_NAMES] = sorted(set(hidden))
            redact.hide_also(hidden)
        if replay.named is not None:
            self._written[REPLAY] = replay.named
        declared.publish_before_handlers(self.put_in_force, self.look)

    def put_in_force(self) -> None:
        """Put in force what this process's file says, if anything; learn what the store says."""
        for name, value in self._written.items():
            text = msgspec.json.encode(value, order="sorted").decode()
            if self._store.read(settings_scripts.value(name)).result() != text:
                self._store.write(settings_scripts.publish, SharedSetting(name, text, user())).result()
        self.look()

    def look(self) -> None:
        """Learn which names hide their values, and which replay mode handlers have that name none."""
        hidden = self._store.read(settings_scripts.value(HIDDEN_NAMES)).result()
        redact.hide_also(() if hidden is None else _names(hidden))
        mode = self._store.read(settings_scripts.value(REPLAY)).result()
        self._replay.settle(None if mode is None else _mode(mode))

    async def groups_of(self, person: str) -> Sequence[str]:
        """Read the groups of a person, as they are published now."""
        found = await self._store.read(settings_scripts.value(GROUPS))
        return () if found is None else _groups(found).get(person, ())
