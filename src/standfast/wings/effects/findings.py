"""What a move carries about the effects of its job."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from standfast.lifecycle import Carried, Transition


class LookResult(NamedTuple):
    """What a look saw of an effect, as the ledger keeps it: its key, the verdict, and what was found (JSON text)."""

    key: str
    verdict: str
    receipt: str | None = None


class Findings(Carried, frozen=True, kw_only=True):
    """What is known of a job's effects when it moves."""

    looks: tuple[LookResult, ...] = ()
    """What was seen of them."""
    look_failed: bool = False
    """Whether a look only failed for now: how often that may happen in a row is counted."""
    progress: bool = False
    """Whether the attempt got further than any before it, which opens a round."""
    reopens: tuple[str, ...] = ()
    """The effects whose receipts are no longer trusted: they are verified before a repeat."""


NOTHING = Findings()


def findings_of(decided: Transition) -> Findings:
    """Give what a move carries about effects."""
    return decided.rider(Findings) or NOTHING


def with_findings(decided: Transition, **more: Any) -> Transition:
    """Have a move carry more about effects."""
    found = msgspec.structs.replace(findings_of(decided), **more)
    return decided if found == NOTHING else decided.carrying(found)
