"""Fields and bodies that several routes share."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Limit = Annotated[int, Meta(ge=1, le=500)]

Cursor = Annotated[int, Meta(ge=1, lt=1 << 62)]

Reason = Annotated[str, Meta(min_length=1, max_length=2000)]


class ReasonBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why."""

    reason: Reason


class OptionalReasonBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why, if there is something to say."""

    reason: str | None = None
