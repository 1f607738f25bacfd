"""Which jobs to find: the filter that every door uses."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from standfast.doors.filters import Filter, described
from standfast.lifecycle import VIEWS, State
from standfast.server.fields import Cursor, Limit
from standfast.wings.jobs.search import LONGEST_SOUGHT

STATES = tuple(map(str, State))
VIEW_NAMES = tuple(map(str, VIEWS))

Sought = Annotated[str, Meta(min_length=1, max_length=LONGEST_SOUGHT)]
Queue = Annotated[str, described("Only of this queue.", "Queue")]
Handler = Annotated[Sought, described("Only of this handler.", "Handler")]
InState = Annotated[
    State,
    described(
        "Only in this state. `queued` includes scheduled, retry_pending and parked jobs.", "State", choices=STATES
    ),
]
View = Annotated[
    str,
    Meta(extra_json_schema={"enum": [*VIEW_NAMES]}),
    described(
        "Only jobs that lists show like this: the state, with `queued` told apart by what a job waits for.",
        "View",
        choices=VIEW_NAMES,
    ),
]
ReasonCode = Annotated[Sought, described("Only jobs that stopped or are retried for this reason.", "Reason code")]
ErrorKind = Annotated[Sought, described("Only jobs that failed with this kind of error.", "Error kind")]
ThreadKey = Annotated[Sought, described("Only of this thread.", "Thread key")]
Session = Annotated[Sought, described("Only of this session.", "Session")]
Label = Annotated[Sought, described("Only with this label.", "Label", example="NAME[:VALUE]")]
PossibleDuplicate = Annotated[
    bool, described("Only jobs that may have had their effect twice.", "Possible duplicate", is_flag=True)
]
Text = Annotated[
    Sought,
    described(
        "Only with this text in the id, the handler, a key, the payload or the failure.",
        "Id or text",
        example="TEXT",
        is_search=True,
    ),
]


class WantedJobs(Filter, frozen=True, forbid_unknown_fields=True):
    """Which jobs to list."""

    queue: Queue | None = None
    handler: Handler | None = None
    state: InState | None = None
    view: View | None = None
    reason_code: ReasonCode | None = None
    error_kind: ErrorKind | None = None
    thread_key: ThreadKey | None = None
    session: Session | None = None
    label: Label | None = None
    possible_duplicate: PossibleDuplicate | None = None
    q: Text | None = None
    limit: Limit = 50
    cursor: Cursor | None = None
