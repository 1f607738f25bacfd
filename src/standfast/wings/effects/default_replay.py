"""The replay mode of handlers that name none: what this process's file says, else what another process published."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.rules import ReplayMode
from standfast.spine.registry import Handler, Registry
from standfast.wings.effects.words import Effect

MILDEST: ReplayMode = "replay"


class DefaultReplay:
    """Gives a mode to handlers as they are registered, and another one once the store is seen to say so."""

    def __init__(self, registry: Registry, named: ReplayMode | None) -> None:
        self.named = named
        """What this process's file says, if anything."""
        self._mode: ReplayMode = named or MILDEST
        self._registry = registry
        self._handlers: list[Handler] = []

    def add(self, handler: Handler) -> None:
        """Take note of a handler that names no mode of its own."""
        self._handlers.append(handler)

    def settle(self, published: ReplayMode | None) -> None:
        """Have every handler without a mode of its own take the default that holds now."""
        self._mode = self.named or published or MILDEST
        for each in self._handlers:
            mode = self.mode(each.effects)
            if each.declaration.replay_mode != mode:
                each.declaration = msgspec.structs.replace(each.declaration, replay_mode=mode)
                self._registry.strict_modes.setdefault(each.queue, {})[each.name] = mode

    def mode(self, effects: Any) -> ReplayMode:
        """Give the mode of a handler with these effects.

        Where only the store says `verify_first`, a handler without anything to look for is left to a person. Where this
        process's own file says it, such a handler is refused as it is registered: whoever wrote both can mend them.
        """
        if self._mode != "verify_first" or self.named or _has_something_to_look_for(effects):
            return self._mode
        return "manual"


def _has_something_to_look_for(effects: Any) -> bool:
    several = effects if isinstance(effects, (list, tuple)) else (effects,)
    return callable(effects) or any(isinstance(each, Effect) and each.verifiable for each in several)
