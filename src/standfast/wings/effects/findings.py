"""What a transition carries about the effects of its job."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from standfast.lifecycle import Carried, Transition


class LookResult(NamedTuple):
    """What a look found of an effect, as the ledger stores it: its key, the verdict, and the receipt (JSON text)."""

    key: str
    verdict: str
    receipt: str | None = None


class Findings(Carried, frozen=True, kw_only=True):
    """What is known of a job's effects at a transition."""

    looks: tuple[LookResult, ...] = ()
    """What looks found of them."""
    look_failed: bool = False
    """Whether a look failed temporarily: the store counts how often in a row."""
    progress: bool = False
    """Whether the attempt got further than any before it; that opens a new round."""
    reopens: tuple[str, ...] = ()
    """The effects whose receipts are no longer trusted: they are verified before a repeat."""


NOTHING = Findings()


def findings_of(decided: Transition) -> Findings:
    """Return what a transition carries about effects."""
    return decided.rider(Findings) or NOTHING


def with_findings(decided: Transition, **more: Any) -> Transition:
    """Return the transition with more findings about effects."""
    found = msgspec.structs.replace(findings_of(decided), **more)
    return decided if found == NOTHING else decided.carrying(found)
