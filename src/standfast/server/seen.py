"""A job as somebody may see it: whole for those who work with it, without secrets for those who only look."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.access import Grant, Right
from standfast.job import JobView
from standfast.redact import redacted


def seen(job: JobView, grant: Grant) -> dict[str, Any]:
    """Give a job as JSON has it; the payload and what failed without secrets, unless payloads may be read."""
    shown: dict[str, Any] = msgspec.to_builtins(job)
    return shown if grant.may(Right.READ_PAYLOADS) or own_only(grant) else redacted(shown)


def own_only(grant: Grant) -> bool:
    """Tell whether somebody may read only what they brought themselves."""
    return not grant.may(Right.READ)


def own(job: JobView, grant: Grant) -> bool:
    """Tell whether a job may be read: by those who read everything, or who brought it."""
    return grant.may(Right.READ) or job.requester == grant.person
