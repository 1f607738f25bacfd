"""The rows of the table: which figures are compared, and the target of each row."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal

import msgspec

from standfast.bench.features import FEATURES
from standfast.bench.figure import Figure
from standfast.bench.interleaved import Rounds
from standfast.bench.sizes import Sizes

Unit = Literal["/s", "ms", "%", "MB"]
FLAT = 1.1
"""Memory counts as flat if a worker ends with at most a tenth more than it had after a tenth of the jobs."""


class Bar(msgspec.Struct, frozen=True):
    """The target of a row: a ratio or a value, at least or at most."""

    of: Literal["ratio", "value"]
    bound: float
    at_least: bool = True

    def met_by(self, value: float | None, ratio: float | None) -> bool | None:
        """Return whether the target is met; None if nothing was measured."""
        judged = ratio if self.of == "ratio" else value
        if judged is None:
            return None
        return judged >= self.bound if self.at_least else judged <= self.bound


class Spec(msgspec.Struct, frozen=True):
    """One row: a figure by its name, what it is compared with, and its target if the project set one."""

    id: str
    metric: str
    unit: Unit
    figure: str
    beside: str | None = None
    beside_is: str = ""
    bar: Bar | None = None


class Pair(msgspec.Struct, frozen=True):
    """One round of a row."""

    value: float
    beside: float | None
    ratio: float | None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row, measured: medians over its rounds. `passes` is None without a target or without a measurement."""

    id: str
    metric: str
    unit: Unit
    value: float | None
    beside: float | None
    beside_is: str
    ratio: float | None
    bar: Bar | None
    passes: bool | None
    rounds: list[Pair]
    count: int
    """How many jobs each round measured (the median)."""
    seconds: float
    """How long each round measured (the median)."""
    cut: bool
    """Whether the time was up before a round had measured everything."""


def specs(sizes: Sizes) -> list[Spec]:
    """Return every row in the order of the project's table: those with targets first."""
    return [*_throughput(sizes), *_waiting_and_cost(sizes), *_beside_backlogs(sizes), *_with_features()]


def _with_features() -> list[Spec]:
    """Compare the jobs of each feature with plain jobs."""
    return [
        Spec(f"feature_{name}", f"enqueue and run with {what}", "/s", f"feature_{name}", "feature_plain", "a plain job")
        for name, what in FEATURES.items()
    ]


def _throughput(sizes: Sizes) -> list[Spec]:
    callers, one = "durable enqueue, 64 callers", "durable enqueue, one caller"
    backlog, middle = f"drain with {count(sizes.large)} waiting", f"with {count(sizes.middle)} waiting"
    single, by_64 = ("raw_one_row", "raw one-row commits"), ("raw_64_rows", "raw 64-row transactions")
    by_1000, merged = ("raw_1000_rows", "raw 1 000-row transactions"), ("raw_claim_complete", "raw claim + complete")
    return [
        Spec("enqueue_64_one_row", callers, "/s", "enqueue_64", *single, Bar("ratio", 12)),
        Spec("enqueue_64_64_rows", callers, "/s", "enqueue_64", *by_64, Bar("ratio", 0.4)),
        Spec("enqueue_one", one, "/s", "enqueue_one", *single, Bar("ratio", 0.75)),
        Spec("bulk", "bulk of 1 000", "/s", "bulk", *by_1000, Bar("ratio", 0.5)),
        Spec("drain", "drain of no-op jobs to empty, 512 slots", "/s", "drain", *merged, Bar("ratio", 0.35)),
        Spec("drain_backlog", backlog, "/s", "drain_large", "drain_middle", middle, Bar("ratio", 0.85)),
    ]


def _waiting_and_cost(sizes: Sizes) -> list[Spec]:
    inside, across = "enqueue to start, in the process", "enqueue to start, across processes"
    commit = ("raw_commit", "raw one-row commit")
    draining = f"memory of a worker draining {count(sizes.large)}"
    early = ("memory_early", "after a tenth of them")
    return [
        Spec("start_inside_p50", f"{inside}, p50", "ms", "start_inside_p50", *commit, _at_most(1.5)),
        Spec("start_inside_p99", f"{inside}, p99", "ms", "start_inside_p99", *commit),
        Spec("start_across_p50", f"{across}, p50", "ms", "start_across_p50", *commit, _at_most(2.2)),
        Spec("start_across_p99", f"{across}, p99", "ms", "start_across_p99", *commit),
        Spec("idle_cpu", "idle worker, of one core", "%", "idle_cpu", bar=_at_most(0.5)),
        Spec("memory_peak", f"{draining}, peak", "MB", "memory_peak", bar=_at_most(60)),
        Spec("memory_flat", f"{draining}, at the end", "MB", "memory_late", *early, Bar("ratio", FLAT, at_least=False)),
    ]


def _at_most(bound: float) -> Bar:
    return Bar("value", bound, at_least=False)


BESIDE_A_BACKLOG: list[tuple[str, str, Unit]] = [
    ("enqueue_one", "durable enqueue, one caller", "/s"),
    ("enqueue_64", "durable enqueue, 64 callers", "/s"),
    ("bulk", "bulk of 1 000", "/s"),
    ("drain", "claim and complete", "/s"),
    ("start_inside_p50", "enqueue to start, in the process, p50", "ms"),
    ("start_across_p50", "enqueue to start, across processes, p50", "ms"),
]


def _beside_backlogs(sizes: Sizes) -> list[Spec]:
    large, small = f"beside {count(sizes.large)} waiting", f"beside {count(sizes.small)} waiting"
    return [
        Spec(f"backlog_{name}", f"{metric}, {large}", unit, f"large.{name}", f"small.{name}", small)
        for name, metric, unit in BESIDE_A_BACKLOG
    ]


def rows(rounds: Rounds, sizes: Sizes) -> list[Row]:
    """Compute every row from the measured rounds."""
    return [_row(spec, rounds) for spec in specs(sizes)]


def _row(spec: Spec, rounds: Rounds) -> Row:
    figures = rounds.get(spec.figure, [])
    beside = rounds.get(spec.beside, []) if spec.beside else []
    others: list[Figure | None] = [*beside] or [None] * len(figures)
    pairs = [_pair(figure, other) for figure, other in zip(figures, others, strict=True)]
    value = _median([pair.value for pair in pairs])
    ratio = _median([pair.ratio for pair in pairs if pair.ratio is not None])
    return Row(
        id=spec.id,
        metric=spec.metric,
        unit=spec.unit,
        value=value,
        beside=_median([figure.value for figure in beside]),
        beside_is=spec.beside_is,
        ratio=ratio,
        bar=spec.bar,
        passes=None if spec.bar is None else spec.bar.met_by(value, ratio),
        rounds=pairs,
        count=round(_median([figure.count for figure in figures]) or 0),
        seconds=_median([figure.seconds for figure in figures]) or 0.0,
        cut=any(figure.cut for figure in (*figures, *beside)),
    )


def _pair(figure: Figure, other: Figure | None) -> Pair:
    if other is None:
        return Pair(figure.value, None, None)
    return Pair(figure.value, other.value, figure.value / other.value)


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def count(jobs: int) -> str:
    """Format a number of jobs for people: 1 M, 100 k, 50."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if jobs >= size and jobs % size == 0:
            return f"{jobs // size} {letter}"
    return str(jobs)
