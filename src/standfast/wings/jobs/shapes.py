"""The answers of routes about jobs."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from standfast.wings.records.shapes import ShownJob


class EnqueueReceipt(TypedDict):
    """A job that is on disk. `state` is null while the store is away and the job waits on the server's host."""

    id: str | None
    outcome: Literal["accepted", "duplicate", "coalesced", "spooled", "fallback", "deferred"]
    state: str | None


class LineProblem(TypedDict):
    """Why a line was refused, as a problem document; `hint` says what to do next."""

    type: str
    title: str
    status: int
    detail: str
    hint: str
    errors: NotRequired[list[dict[str, str]]]
    """What does not fit, and where in the line, as JSON pointers."""


class LineAnswer(TypedDict):
    """The outcome of one line: its receipt, or the problem."""

    line: int
    status: int
    receipt: EnqueueReceipt | None
    problem: LineProblem | None


class BulkAnswer(TypedDict):
    """The outcome of each line, in order, and how many lines had which outcome; `refused` is one of them."""

    outcomes: dict[str, int]
    items: list[LineAnswer]


class JobWithHint(ShownJob, frozen=True, kw_only=True):
    """One job, and what to do about it in one sentence."""

    hint: str


class Explanation(TypedDict):
    """Why a job is where it is, in one sentence."""

    id: str
    explanation: str


class JobResult(TypedDict):
    """A job's whole result, or one key of it; null if it has none."""

    id: str
    result: Any
