"""What becomes of what two callers said about one job, when the later one is folded into the job of the first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from standfast.job import MOST_LABELS, Details, higher
from standfast.lifecycle import Carried

MOST_REQUESTERS = 1000
"""How many may have asked for one job: its details are written anew with each of them."""


class SupersededBy(Carried, frozen=True):
    """The job that took the place of a cancelled one in their thread."""

    job: str

    @property
    def ending(self) -> Mapping[str, Any]:
        """Keep which one it was."""
        return {"superseded_by": self.job}


def folded(held: Details, newcomer: Details) -> Details:
    """Give the details of a job that took another one in: the newcomer's word, but the first caller's job.

    Its owner and session stay: enqueueing beside a job takes over neither its inbox nor its consent. Risk is the higher
    one, labels are merged, and every requester stays one: they read it, and none of them may approve it.
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
    """Give the details of a job that took in what was accepted before it: its own word stays."""
    return msgspec.structs.replace(
        held,
        risk=higher(held.risk, latecomer.risk),
        labels=_merged(latecomer.labels, held.labels),
        also_requested_by=_others(held, latecomer),
    )


def _others(held: Details, joining: Details) -> tuple[str, ...]:
    """Name everybody beside the owner who asked for the work, each once, in the order of their asking."""
    requesters = (*held.also_requested_by, joining.requester, *joining.also_requested_by)
    return tuple(dict.fromkeys(each for each in requesters if each is not None and each != held.requester))


def _merged(older: dict[str, str] | None, newer: dict[str, str] | None) -> dict[str, str] | None:
    """Put labels together; of a name that both give, the newer value counts."""
    merged = {**(older or {}), **(newer or {})}
    return dict(list(merged.items())[-MOST_LABELS:]) or None
