"""The verbs that change what becomes of an existing job."""

from __future__ import annotations

from typing import Any, cast

from standfast.application.parts import Parts
from standfast.rules import Seconds
from standfast.spine.accept import user
from standfast.spine.ids import JobId
from standfast.typed.reply import Reply
from standfast.views import JobView
from standfast.wings.jobs.verbs import PROBE_FOR
from standfast.wings.limits.probes import Probe


class Operating(Parts):
    """Changes what becomes of a job."""

    async def retry(
        self,
        id: JobId,
        *,
        probe: Probe | None = None,
        timeout: Seconds = PROBE_FOR,
        by: str | None = None,
        session: str | None = None,
    ) -> Reply[Any]:
        """Run a job again as soon as possible: a waiting job now, a letter by replay. A running job is left alone.

        With `probe`, a function or a URL, the job runs once that says yes (True, or 2xx); if it does not within
        `timeout`, the job does not run, and the Reply says why as `probe`. Only this call waits; nothing is stored.
        `by` is who asks; the default is the session, or else the operating system's user. With `session`, an agent
        asks: a letter that is `manual` or may have landed then waits for a person's approval.
        """
        await self._ready()
        who = by or session or user()
        reply = await self._operations.retry(id, by=who, session=session, probe=probe, timeout=timeout)
        return cast("Reply[Any]", reply)

    async def cancel(self, id: JobId, *, by: str | None = None) -> JobView:
        """End a job that is no longer wanted. A running job is asked to stop, and ends cancelled unless it succeeds.

        `by` is who asks; the default is the operating system's user. The job's history keeps it.
        """
        await self._ready()
        return await self._operations.cancel(id, by=by or user())
