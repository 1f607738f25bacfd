"""Which letters a verb is about: what `sf.dead_letters.list`, `plan`, `groups`, `purge` and `export` take."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from standfast.typed.job_options import Duration, When

_OfClass = TypedDict("_OfClass", {"class": Literal["transient", "permanent", "unknown"] | None}, total=False)
"""Can a retry help? It has this form because `class` is a word of Python."""


class LetterFilter(_OfClass, total=False):
    """Each name that is given narrows the choice further; None is as good as absent."""

    queue: str | None
    """Only of this queue."""
    handler: str | None
    """Only of this handler."""
    state: Literal["dead", "held"] | None
    """Only dead ones, or only held ones."""
    reason_code: str | None
    """Only those that stopped for this reason, or whose last attempt did."""
    cause: str | None
    """Only those whose last attempt failed for this reason."""
    error_kind: str | None
    """Only those that failed with this kind of error, such as `TimeoutError`."""
    landed: Literal["no", "maybe"] | None
    """May the effect exist?"""
    replay_status: (
        Literal[
            "none",
            "scheduled",
            "pending_review",
            "approval_pending",
            "denied",
            "replayed",
            "resolved",
            "quarantined",
            "discarded",
        ]
        | None
    )
    """Where they are in their triage."""
    fingerprint: str | None
    """Only of this group, as `groups` names it."""
    thread_key: str | None
    """Only of this thread."""
    session: str | None
    """Only of this session."""
    label: str | None
    """Only with this label: its name, or `name:value`."""
    older_than: Duration | None
    """Only those that stopped at least so long ago: seconds, text such as `"2h"`, or a timedelta."""
    since: When | str | None
    """Only those that stopped at this time or later: a datetime with a zone, RFC 3339, or seconds since 1970."""
    until: When | str | None
    """Only those that stopped before this time."""
    text: str | None
    """Only with this text in the id, a key, the payload or the failure."""
    payload: str | tuple[str, Any]
    """Only with this value at this path of the payload: `("customer.id", 42)`, or `"customer.id=42"`.

    `{"payload.customer.id": 42}` means the same, and is a name that a type checker cannot know.
    """
