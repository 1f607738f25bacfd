"""Settings shared through the store: groups, more names whose values are hidden, and the default replay mode.

Working processes publish them, and all read them. The replay mode may change while a worker runs: workers look again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

import msgspec

from standfast import redact
from standfast.concurrency.loops import Loop
from standfast.rules import OURS, ReplayMode
from standfast.spine.accept import user
from standfast.store.store import Store
from standfast.wings.effects.default_replay import DefaultReplay
from standfast.wings.queues.declarations import Declarations
from standfast.wings.tokens import settings_scripts
from standfast.wings.tokens.settings_scripts import SharedSetting

log = logging.getLogger("standfast.queue")

EVERY = 10.0
"""Seconds between a worker's looks at the default replay mode: one small read, if a handler depends on it."""

GROUPS = "groups"
HIDDEN_NAMES = "redact"
REPLAY = "replay"

_groups = msgspec.json.Decoder(dict[str, list[str]]).decode
_names = msgspec.json.Decoder(list[str]).decode
_word = msgspec.json.Decoder(str).decode


class SharedSettings:
    """`[groups]`, `[redact]` and `[store] replay` of this process's file, if it has them, and of the store."""

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
        self._declared = declared
        self._replay = replay
        self._unknown_mode = ""
        """The published mode that this version does not know and has warned about."""
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
        """Put in force what this process's file says, if anything; then read what the store says."""
        for name, value in self._written.items():
            if name == REPLAY and not self._has_handlers():
                continue  # a producer does not decide how other programs' handlers replay
            text = msgspec.json.encode(value, order="sorted").decode()
            if self._store.read(settings_scripts.value(name)).result() != text:
                self._store.write(settings_scripts.publish, SharedSetting(name, text, user())).result()
        self.look()

    def look(self) -> None:
        """Read which names hide their values, and the replay mode of handlers that name none."""
        hidden = self._store.read(settings_scripts.value(HIDDEN_NAMES)).result()
        redact.hide_also(() if hidden is None else _names(hidden))
        self._replay.settle(self._known(self._store.read(settings_scripts.value(REPLAY)).result()))

    def loop(self) -> Loop:
        """Return the loop by which a worker's handlers follow a default replay mode published while it runs."""
        return Loop("default replay", EVERY, self.keep_up)

    async def keep_up(self) -> None:
        """Let handlers take the store's present default, and declare them again if it has changed.

        They are declared first: if that fails, the next look finds the same difference.
        """
        if not self._replay.follows_store:
            return
        published = await self.published_replay()
        changes = self._replay.redeclarations(published)
        if changes:
            await self._declared.redeclare(changes)
        self._replay.settle(published)

    async def published_replay(self) -> ReplayMode | None:
        """Read the mode published for handlers that name none; None if no process ever published one."""
        return self._known(await self._store.read(settings_scripts.value(REPLAY)))

    async def groups_of(self, person: str) -> Sequence[str]:
        """Read the groups of a person, as they are published now."""
        found = await self._store.read(settings_scripts.value(GROUPS))
        return () if found is None else _groups(found).get(person, ())

    def _has_handlers(self) -> bool:
        """Return whether this process has handlers of its own; those that carry standfast's messages do not count."""
        return any(not queue.startswith(OURS) for queue, _ in list(self._declared.registry.own))

    def _known(self, published: str | None) -> ReplayMode | None:
        """Read a published mode. One that only a newer version knows counts as the strictest, since it may be that."""
        mode = None if published is None else _word(published)
        if mode is None or mode in get_args(ReplayMode):
            return cast("ReplayMode | None", mode)
        if mode != self._unknown_mode:
            self._unknown_mode = mode
            log.warning(
                "the store's default replay mode %r is unknown to this version, and handlers without replay= are "
                "'manual' here; upgrade standfast",
                mode,
            )
        return "manual"
