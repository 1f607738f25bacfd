"""What waits in this host's spool, as people see it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from standfast.lifecycle import State
from standfast.store.spool import Entry, Spool, Stamp
from standfast.views import JobView
from standfast.wings.records.figures import number, span
from standfast.wings.records.reads import JobRecord, JobRow
from standfast.wings.records.view import job_view

SHOWN = 20


class SpooledJob(NamedTuple):
    """One job that waits for the server, for how many seconds, and why it is not there."""

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
        """Word what health says."""
        if self.trouble is not None:
            return f"spool: {self.path} cannot be used: {self.trouble}"
        if not self.oldest:
            return None
        first = self.oldest[0]
        jobs = "1 job waits" if self.depth == 1 else f"{number(self.depth)} jobs wait"
        waited = f"the oldest for {span(first.waited_seconds)}"
        return f"spool: {jobs} on this host, in {self.path}, {waited}: {first.reason}"

    def summary(self) -> dict[str, Any]:
        """Say where it is, how much waits there, how long, and why; for health."""
        first = self.oldest[0] if self.oldest else None
        return {
            "path": self.path,
            "depth": self.depth,
            "oldest_seconds": first and first.waited_seconds,
            "reason": self.trouble or (first and first.reason),
        }

    def display(self) -> dict[str, Any]:
        """Lay it out for stats, with the oldest jobs."""
        return {**self.summary(), "entries": [each._asdict() for each in self.oldest]}


def spool_status(spool: Spool, now: Stamp, refusal: Exception | None) -> SpoolStatus:
    """Tell what a spool holds; `refusal` is why nothing of it can be brought now."""
    oldest = [
        SpooledJob(entry.job.id, entry.job.queue, round(now.since(entry.accepted), 3), why(entry, refusal))
        for entry in spool.entries(SHOWN)
    ]
    return SpoolStatus(str(spool.path), spool.depth(), oldest, spool.trouble)


def why(entry: Entry, refusal: Exception | None) -> str:
    """Say why a job is not there yet: what was said of this one, what keeps all of them here, or what was met first."""
    return entry.reason if entry.tries or refusal is None else server_message(refusal)


def server_message(error: BaseException) -> str:
    """Give what the server or its driver said, without our advice for the call that met it."""
    return str(error.__cause__ or error).strip().partition("\n")[0]


def view(entry: Entry, refusal: Exception | None) -> JobView:
    """Give a job as it will be once it is there; its view is `spooled`, and its reason why."""
    at = entry.accepted.wall
    empty = dict.fromkeys(JobRow._fields)
    job = {name: getattr(entry.job, name) for name in JobRow._fields if hasattr(entry.job, name)}
    counts = dict.fromkeys(("n", "attempts", "round_start", "deferrals", "token", "generation", "replays"), 0)
    due_at = at + entry.job.delay if entry.job.at is None else entry.job.at
    times = {"created_at": at, "entered_at": at, "due_at": due_at, "expires_at": entry.job.expires}
    row = {**empty, **job, **counts, **times, "state": State.QUEUED, "priority": entry.job.priority or 0}
    row["fingerprint"] = None  # that of a failure: it has none
    shown = job_view(JobRecord(JobRow(**row), []), now=at, skew=0.0)
    return msgspec.structs.replace(shown, view="spooled", reason=why(entry, refusal))
