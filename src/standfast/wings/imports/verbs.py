"""Importing: the records of other queues become jobs and letters here, each once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from standfast.spine.accept import Acceptor
from standfast.store.store import Store
from standfast.views import Heard
from standfast.wings.approvals.people import checked_actor
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.words import Decision
from standfast.wings.imports.known_shapes import Profile
from standfast.wings.imports.words import ImportOptions, Report, Source
from standfast.wings.letters.disposal import no_progress
from standfast.wings.queues.checks import Admission


class Imports:
    """Brings in the records of other queues, each once: an interrupted import is simply run again."""

    def __init__(
        self, store: Store, ready: Callable[[], Awaitable[None]], acceptor: Acceptor, admission: Admission
    ) -> None:
        self._store = store
        self._ready = ready
        self._acceptor = acceptor
        self._admission = admission

    async def bring_in(
        self,
        source: Source,
        profile: Profile,
        options: ImportOptions | None = None,
        *,
        by: str,
        reason: str | None = None,
        progress: Heard = no_progress,
    ) -> Report:
        """Read a source, and store each record that is not here yet. `dry_run` stores nothing, and counts the same."""
        from standfast.wings.imports.import_run import Parts, Run  # noqa: PLC0415 - few processes import anything

        options = options or ImportOptions()
        actor = checked_actor(by, reason or f"import {source.kind} {source.shown}"[:200])
        parts = Parts(self._store, self._acceptor, self._admission)
        run = Run(parts, source, profile, options, actor)
        if not options.dry_run or self._store.location.exists():
            await self._ready()
            await run.look()
        if not options.dry_run:
            detail = {"kind": source.kind, "source": source.shown, "map": dict(options.fields)}
            await self._store.write(audit.note, Decision(kind="import", outcome="started", detail=detail, **actor))
        return await run.to_the_end(progress)
