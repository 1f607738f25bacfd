"""Which letters to find: the filter that every door uses."""

from __future__ import annotations

from typing import Annotated

from standfast.doors.filters import Filter, described
from standfast.failure import Class, Landed
from standfast.server.fields import Cursor, Limit
from standfast.views import REPLAY_STATUSES

Queue = Annotated[str, described("Only of this queue.", "Queue")]
ReasonCode = Annotated[
    str, described("Only those that stopped for this reason, or whose last attempt did.", "Reason code")
]
Cause = Annotated[str, described("Only those whose last attempt failed for this reason.", "Cause")]
FailureClass = Annotated[
    str, described("Only with this class: can a retry help?", "Class", choices=tuple(map(str, Class)))
]
MayHaveLanded = Annotated[
    str, described("Only with this answer: may the effect exist?", "Landed", choices=tuple(map(str, Landed)))
]
ReplayStatus = Annotated[str, described("Only with this replay status.", "Replay status", choices=REPLAY_STATUSES)]
Stopped = Annotated[str, described("Only dead ones, or only held ones.", "State", choices=("dead", "held"))]
ErrorKind = Annotated[str, described("Only jobs that failed with this kind of error.", "Error kind")]
ThreadKey = Annotated[str, described("Only of this thread.", "Thread key")]
Session = Annotated[str, described("Only of this session.", "Session")]
Label = Annotated[str, described("Only with this label.", "Label", example="NAME[:VALUE]")]
Fingerprint = Annotated[str, described("Only letters of this group.")]
OlderThan = Annotated[
    str,
    described("Only those that stopped at least this long ago.", "Older than", example="2h", is_duration=True),
]


Handler = Annotated[str, described("Only of this handler.", "Handler")]
Text = Annotated[
    str,
    described(
        "Only with this text in the id, a key, the payload or the failure.", "Text", example="TEXT", is_search=True
    ),
]
Payload = Annotated[
    str, described("Only with this value at this path of the payload.", "Payload", example="PATH=VALUE")
]
Since = Annotated[
    str,
    described(
        "Only letters that stopped at this time or later.", "Since", example="2026-12-24T18:00:00Z", is_moment=True
    ),
]
Until = Annotated[
    str,
    described("Only letters that stopped before this time.", "Until", example="2026-12-24T18:00:00Z", is_moment=True),
]


class WantedLetters(Filter, frozen=True, forbid_unknown_fields=True, rename={"cls": "class"}):
    """Which letters to list."""

    queue: Queue | None = None
    state: Stopped | None = None
    reason_code: ReasonCode | None = None
    cause: Cause | None = None
    error_kind: ErrorKind | None = None
    cls: FailureClass | None = None
    landed: MayHaveLanded | None = None
    replay_status: ReplayStatus | None = None
    fingerprint: Fingerprint | None = None
    thread_key: ThreadKey | None = None
    session: Session | None = None
    label: Label | None = None
    older_than: OlderThan | None = None
    handler: Handler | None = None
    text: Text | None = None
    payload: Payload | None = None
    since: Since | None = None
    until: Until | None = None


class WantedPage(WantedLetters, frozen=True, forbid_unknown_fields=True, rename={"cls": "class"}):
    """Which letters to list, and how many."""

    limit: Limit = 50
    cursor: Cursor | None = None
