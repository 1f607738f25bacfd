"""A job as doors publish it: `JobView` in JSON, for the token that asks."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import msgspec

from standfast.job import Coalesced
from standfast.views import JobView


class ShownEffect(TypedDict):
    """One effect or step of a job: whether it landed, the evidence, and when and by which attempt that was found."""

    name: str
    verdict: str
    receipt: Any
    at: datetime | None
    attempt: int | None
    arguments: NotRequired[str]
    """The hash of its arguments, if one name was called with several."""
    receipt_bytes: NotRequired[int]
    """The size of a receipt that is too large for this answer; `GET /jobs/{id}` has it."""
    late: NotRequired[bool]
    """True if a worker recorded it after it had lost the job."""


if TYPE_CHECKING:
    ShownJob = JobView
else:  # a subclass with other types for two fields: right for JSON, which is read only, and wrong for a type checker
    ShownJob = msgspec.defstruct(
        "ShownJob",
        [("coalesced", Coalesced | str | None), ("effects", list[ShownEffect])],
        bases=(JobView,),
        namespace={"__doc__": "A job. Times are UTC; a value that the token may not read is the text `***`."},
        frozen=True,
        kw_only=True,
    )


class JobPage(TypedDict):
    """Jobs, the newest first. `next_cursor` leads to the older ones; it is null on the last page."""

    items: list[ShownJob]
    next_cursor: int | None
    scanned: NotRequired[int | None]
    """How many jobs were read; null for a token that does not reach every job."""
