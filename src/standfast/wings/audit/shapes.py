"""The answers of routes about the audit chain."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from standfast.wings.audit.rules import Problem
from standfast.wings.audit.words import Decision


class AuditEntry(Decision, frozen=True, kw_only=True):
    """One decision: who did what to what, under which rule, and its outcome. `seq` is the number of its link."""

    seq: int
    at: str


class AuditPage(TypedDict):
    """Decisions, oldest first. `next_after` is the `after` of the next page; it is null on the last one."""

    items: list[AuditEntry]
    next_after: int | None


class AuditProblem(Problem, frozen=True):
    """The first link of the chain that is not as it was written, and how that shows."""


class AuditVerdict(TypedDict):
    """Whether the chain is what was written."""

    ok: bool
    entries: int
    head: str | None
    anchored: int | None
    anchored_from: int | None
    begins_late: NotRequired[str]
    problem: NotRequired[AuditProblem]
