"""Schedules declared next to the handlers (`sf.schedule`): published by workers and servers, paused when gone.

A schedule is gone when no process has declared it for a while, and a running process has the code that declared it,
but not the schedule. A process that merely does not import that code says nothing about it: several applications may
share a store, and old and new code run side by side during an upgrade.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.store.store import Store
from standfast.wings.schedules import declared_scripts as scripts
from standfast.wings.schedules.declared_scripts import DeclaredRow, DeclaredUpsert, GoneRequest
from standfast.wings.schedules.ticking import run_after_pause, spec_of
from standfast.wings.schedules.verbs import Schedules

log = logging.getLogger("standfast.queue")

EVERY = 20.0
"""Seconds between two heartbeats of a process for the schedules it declares."""
SILENCE = 90.0
"""Seconds without such a heartbeat after which a schedule may be gone."""

Ask = dict[str, Any]
"""The arguments of `Schedules.add`."""


class DeclaredSchedules:
    """The schedules of one process."""

    def __init__(self, store: Store, schedules: Schedules, queues: Callable[[], frozenset[str]]) -> None:
        self._store = store
        self._schedules = schedules
        self._queues = queues
        """Returns the queues that this process declares or serves."""
        self._asked: dict[str, tuple[str, Ask]] = {}
        self._published: dict[str, str] = {}
        """The published specifications, by name."""

    def declare(self, name: str, module: str, **asked: Any) -> None:
        """Note a schedule. An error in its times is raised now."""
        if name in self._asked:
            raise ConfigurationError(f"schedule {name!r} is declared twice; give one of them another name")
        self._schedules.check_times(name, **asked)
        self._asked[name] = (main_module() if module == "__main__" else module, asked)

    def take_over(self, other: DeclaredSchedules) -> None:
        """Copy the declarations of another one: for tests that move an application to another store."""
        self._asked |= other._asked

    async def publish(self) -> None:
        """Store what is declared here and not published yet."""
        for name in [each for each in self._asked if each not in self._published]:
            module, asked = self._asked[name]
            known = await self._schedules.put(name, **asked)
            following = run_after_pause(spec_of(known.spec), known.anchor, *self._store.times())
            queues = msgspec.json.encode(sorted(self._queues())).decode()
            upsert = DeclaredUpsert(name=name, module=module, queues=queues, following=following)
            await self._store.write(scripts.declare, upsert)
            self._published[name] = known.spec

    async def keep_up(self) -> None:
        """Publish what is new, renew what is published, and pause what is gone from the code."""
        await self.publish()
        if self._published:
            await self._store.write(scripts.renew, sorted(self._published))
        silent_since = self._store.now() - SILENCE
        for row in await self._store.read(scripts.declared_rows()):
            if row.gone_at is None and row.declared_at <= silent_since and self._is_gone(row):
                await self._pause(GoneRequest(row.name, silent_since), row.module)

    async def _pause(self, request: GoneRequest, module: str) -> None:
        if await self._store.write(scripts.pause_gone, request):
            what = "schedule %s is gone from the code of %s and is paused; remove it with: standfast schedule remove"
            log.warning(what, request.name, module)

    def statement(self) -> dict[str, Any]:
        """Return what this process declares, to compare it with others; heartbeats call it from their own thread."""
        return {f"schedule {name}": spec for name, spec in self._published.copy().items()}

    def forget(self) -> None:
        """Publish again at the next start: the store may be another one by then."""
        self._published.clear()

    def _is_gone(self, row: DeclaredRow) -> bool:
        """Return whether this process has the code that declared a schedule, and that code no longer declares it."""
        if row.name in self._asked or self._queues().isdisjoint(msgspec.json.decode(row.queues, type=list[str])):
            return False
        return row.module == main_module() or row.module in sys.modules or _was_removed(row.module)


def _was_removed(module: str) -> bool:
    """Return whether a module no longer exists, although the package it belonged to is in use here."""
    package, _, rest = module.partition(".")
    if not rest or package not in sys.modules:
        return False
    try:
        return find_spec(module) is None
    except (ImportError, ValueError):  # a package on the way to it is gone
        return True


def main_module() -> str:
    """Name the main program so that the name stays the same from start to start."""
    main = sys.modules["__main__"]
    if main.__spec__ is not None:  # python -m application
        return str(main.__spec__.name)
    file = str(getattr(main, "__file__", None) or "")
    return f"__main__:{PurePath(file).name}"
