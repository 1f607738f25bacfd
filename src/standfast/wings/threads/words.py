"""Combines what two callers said, when the second caller's job is folded into the first one's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from standfast.job import MOST_LABELS, Details, higher
from standfast.lifecycle import Carried

MOST_REQUESTERS = 1000
"""The most requesters of one job: its details are rewritten for each of them."""


class SupersededBy(Carried, frozen=True):
    """The job that took the place of a cancelled one in their thread."""

    job: str

    @property
    def ending(self) -> Mapping[str, Any]:
        """Name the job that took its place."""
        return {"superseded_by": self.job}


def folded(held: Details, newcomer: Details) -> Details:
    """Return the details of a job that another was folded into: the new job's, but the first caller still owns it.

    Its owner and session stay: enqueueing into a job's thread takes over neither its inbox nor its consent. Risk is the
    higher one, labels are merged, and every requester remains one: they may read the job, but may not approve it.
    """
    return msgspec.structs.replace(
        newcomer,
        requester=held.requester,
        session=held.session,
        risk=higher(held.risk, newcomer.risk),
        labels=_merged(held.labels, newcomer.labels),
        also_requested_by=_others(held, newcomer),
        amended=held.amended,
        amenders=held.amenders,
    )


def folded_under(held: Details, latecomer: Details) -> Details:
    """Return the details of a job that an earlier-accepted one was folded into: its own stay."""
    return msgspec.structs.replace(
        held,
        risk=higher(held.risk, latecomer.risk),
        labels=_merged(latecomer.labels, held.labels),
        also_requested_by=_others(held, latecomer),
    )


def _others(held: Details, joining: Details) -> tuple[str, ...]:
    """Return everyone besides the owner who asked for the work, each once, in the order they asked."""
    requesters = (*held.also_requested_by, joining.requester, *joining.also_requested_by)
    return tuple(dict.fromkeys(each for each in requesters if each is not None and each != held.requester))


def _merged(older: dict[str, str] | None, newer: dict[str, str] | None) -> dict[str, str] | None:
    """Merge labels; if both give a name, the newer value counts."""
    merged = {**(older or {}), **(newer or {})}
    return dict(list(merged.items())[-MOST_LABELS:]) or None
