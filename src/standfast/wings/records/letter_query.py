"""Which letters: the filter of every door."""

from __future__ import annotations

from typing import Annotated

from standfast.doors.filters import Filter, described
from standfast.failure import Class, Landed
from standfast.lifecycle import REPLAY_STATUSES
from standfast.server.fields import Cursor, Limit

Queue = Annotated[str, described("Only of this queue.", "Queue")]
ReasonCode = Annotated[
    str, described("Only those that stopped for this reason, or whose last attempt did.", "Reason code")
]
Cause = Annotated[str, described("Only those whose last attempt failed for this reason.", "Cause")]
FailureClass = Annotated[str, described("Can repeating help?", "Class", choices=tuple(map(str, Class)))]
MayHaveLanded = Annotated[str, described("May the effect exist?", "Landed", choices=tuple(map(str, Landed)))]
ReplayStatus = Annotated[str, described("Only at this point of triage.", "Replay status", choices=REPLAY_STATUSES)]
Fingerprint = Annotated[str, described("Only those that stopped alike.")]
OlderThan = Annotated[
    str,
    described("Only those that stopped at least this long ago.", "Older than", example="2h", is_duration=True),
]


class WantedLetters(Filter, frozen=True, forbid_unknown_fields=True, rename={"cls": "class"}):
    """Which letters."""

    queue: Queue | None = None
    reason_code: ReasonCode | None = None
    cause: Cause | None = None
    cls: FailureClass | None = None
    landed: MayHaveLanded | None = None
    replay_status: ReplayStatus | None = None
    fingerprint: Fingerprint | None = None
    older_than: OlderThan | None = None


class WantedPage(WantedLetters, frozen=True, forbid_unknown_fields=True, rename={"cls": "class"}):
    """Which letters, and how many of them."""

    limit: Limit = 50
    cursor: Cursor | None = None
