"""The jobs that wait in this host's spool or in an outbox, as people see them."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from standfast.job import NewJob
from standfast.lifecycle import State
from standfast.store.spool import Entry, Spool, Stamp
from standfast.views import JobView
from standfast.wings.records.figures import number, span
from standfast.wings.records.reads import JobRecord, JobRow
from standfast.wings.records.view import job_view
from standfast.wings.relay.outbox import RELAY_EVERY

SHOWN = 20
VIEWS = frozenset({"spooled", "deferred"})
"""The views of jobs that are not in the store yet."""
IN_OUTBOX = "no relay has brought it from its outbox yet"


class SpooledJob(NamedTuple):
    """One job that waits for the server, for how many seconds, and why."""

    id: str
    queue: str
    waited_seconds: float
    reason: str


class SpoolStatus(NamedTuple):
    """How many jobs wait, the oldest of them, and what is wrong with the file itself."""

    path: str
    depth: int
    oldest: list[SpooledJob]
    trouble: str | None

    @property
    def issue(self) -> str | None:
        """The issue that health reports, if there is one."""
        if self.trouble is not None:
            return f"spool: {self.path} cannot be used: {self.trouble}"
        if not self.oldest:
            return None
        first = self.oldest[0]
        jobs = "1 job waits" if self.depth == 1 else f"{number(self.depth)} jobs wait"
        waited = f"the oldest for {span(first.waited_seconds)}"
        return f"spool: {jobs} on this host, in {self.path}, {waited}: {first.reason}"

    def summary(self) -> dict[str, Any]:
        """Return where the spool is, how many jobs wait there, how long, and why; for health."""
        first = self.oldest[0] if self.oldest else None
        return {
            "path": self.path,
            "depth": self.depth,
            "oldest_seconds": first and first.waited_seconds,
            "reason": self.trouble or (first and first.reason),
        }

    def display(self) -> dict[str, Any]:
        """Return the spool with its oldest jobs, for stats."""
        return {**self.summary(), "entries": [each._asdict() for each in self.oldest]}


def spool_status(spool: Spool, now: Stamp, refusal: Exception | None) -> SpoolStatus:
    """Return the state of a spool; `refusal` is why nothing can be brought now."""
    oldest = [
        SpooledJob(entry.job.id, entry.job.queue, round(now.since(entry.accepted), 3), why(entry, refusal))
        for entry in spool.entries(SHOWN)
    ]
    return SpoolStatus(str(spool.path), spool.depth(), oldest, spool.trouble)


def why(entry: Entry, refusal: Exception | None) -> str:
    """Say why a job is not there yet: its own refusal, the present reason for all, or the reason it was spooled."""
    return entry.reason if entry.tries or refusal is None else server_message(refusal)


def server_message(error: BaseException) -> str:
    """Return what the server or its driver said, without our advice to the caller."""
    return str(error.__cause__ or error).strip().partition("\n")[0]


def view(entry: Entry, refusal: Exception | None) -> JobView:
    """Return a job as it will be in the store; its view is `spooled`, and its reason why."""
    return _as_it_will_be(entry.job, entry.accepted.wall, "spooled", why(entry, refusal))


def view_deferred(job: NewJob, wall: float) -> JobView:
    """Return a job of an outbox as it would be if it were brought now; its view is `deferred`."""
    return _as_it_will_be(job, wall, "deferred", IN_OUTBOX)


async def explain(job: JobView) -> str:
    """Say in one sentence why a job is not in the store yet."""
    if job.view == "deferred":
        return (
            f"It waits in the outbox of your database: it is committed there, and sf.outbox() brings it here every "
            f"{RELAY_EVERY} s where it runs. If it stays, nothing relays that database, or queue {job.queue!r} is full."
        )
    return f"It waits in the spool of this host, and is forwarded once the database takes it: {job.reason}."


def _as_it_will_be(waiting: NewJob, at: float, view_name: str, reason: str) -> JobView:
    empty = dict.fromkeys(JobRow._fields)
    job = {name: getattr(waiting, name) for name in JobRow._fields if hasattr(waiting, name)}
    counts = dict.fromkeys(("n", "attempts", "round_start", "deferrals", "token", "generation", "replays"), 0)
    due_at = at + waiting.delay if waiting.at is None else waiting.at
    times = {"created_at": at, "entered_at": at, "due_at": due_at, "expires_at": waiting.expires}
    row = {**empty, **job, **counts, **times, "state": State.QUEUED, "priority": waiting.priority or 0}
    row["fingerprint"] = None  # a failure's fingerprint, which it does not have
    shown = job_view(JobRecord(JobRow(**row), []), now=at, skew=0.0)
    return msgspec.structs.replace(shown, view=view_name, reason=reason)
