"""The replay mode of handlers that name none: from this process's file, or else as another process published it."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.rules import ReplayMode
from standfast.settings import REPLAY, Setting
from standfast.spine.registry import Handler, Registry
from standfast.wings.effects.words import Effect
from standfast.wings.queues.scripts import Redeclaration

SETTING = "[store] replay"
"""The name under which a process states which default its file names."""


class DefaultReplay:
    """Gives handlers a mode when they are registered, and a new one once the store is found to say so."""

    def __init__(self, registry: Registry, setting: Setting) -> None:
        self.named: ReplayMode | None = setting.value if setting.source == "file" else None
        """The mode that this process's file names, if any."""
        self._mode: ReplayMode = setting.value
        self._registry = registry
        self._handlers: list[Handler] = []

    @property
    def follows_store(self) -> bool:
        """Whether a handler here takes its mode from the store, because neither it nor the file names one."""
        return self.named is None and bool(self._handlers)

    def add(self, handler: Handler) -> None:
        """Add a handler that names no mode of its own.

        Claims hold the table of modes, even a claim that waits for work: a mode that is set later counts for them. And
        because the handler is in the table from now on, the table does not grow while a claim reads it.
        """
        self._registry.strict_modes.setdefault(handler.queue, {})[handler.name] = handler.declaration.replay_mode
        self._handlers.append(handler)

    def settle(self, published: ReplayMode | None) -> None:
        """Give every handler without a mode of its own the default that holds now."""
        self._mode = self._default(published)
        for handler, mode in self._changes(self._mode):
            handler.declaration = msgspec.structs.replace(handler.declaration, replay_mode=mode)
            self._registry.strict_modes[handler.queue][handler.name] = mode

    def redeclarations(self, published: ReplayMode | None) -> list[Redeclaration]:
        """Return what `settle` will change."""
        return [
            Redeclaration(handler.declaration, msgspec.structs.replace(handler.declaration, replay_mode=mode))
            for handler, mode in self._changes(self._default(published))
        ]

    def mode(self, effects: Any) -> ReplayMode:
        """Return the mode of a handler with these effects."""
        return self._mode_under(self._mode, effects)

    def _default(self, published: ReplayMode | None) -> ReplayMode:
        return self.named or published or REPLAY

    def _changes(self, default: ReplayMode) -> list[tuple[Handler, ReplayMode]]:
        """Return the handlers whose mode changes under a default, with their new mode."""
        modes = [(each, self._mode_under(default, each.effects)) for each in self._handlers]
        return [(each, mode) for each, mode in modes if each.declaration.replay_mode != mode]

    def _mode_under(self, default: ReplayMode, effects: Any) -> ReplayMode:
        """Return the mode of a handler with these effects under a default.

        If only the store says `verify_first`, a handler without effects to look for becomes `manual`. If this process's
        own file says it, such a handler is refused when it is registered: the author of both can fix them.
        """
        if default != "verify_first" or self.named or _has_something_to_look_for(effects):
            return default
        return "manual"

    def statement(self) -> dict[str, Any]:
        """Return the default that this process's file names, for other processes to compare."""
        return {} if self.named is None else {SETTING: {"replay": self.named}}


def _has_something_to_look_for(effects: Any) -> bool:
    several = effects if isinstance(effects, (list, tuple)) else (effects,)
    return callable(effects) or any(isinstance(each, Effect) and each.verifiable for each in several)
