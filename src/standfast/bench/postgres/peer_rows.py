"""The rows of the table: standfast, each peer, the ratio to the best peer, and the target."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

import msgspec

from standfast.bench.figure import Figure
from standfast.bench.postgres.environment import PACKAGES
from standfast.bench.postgres.peer_rounds import Round
from standfast.bench.postgres.product import TITLE
from standfast.bench.rows import Bar, Unit, count
from standfast.bench.sizes import Sizes

PEERS = tuple(package.title for package in PACKAGES)


class Spec(msgspec.Struct, frozen=True):
    """One row: a figure by its name, and its target if the project set one.

    The ratio is to the best peer, to the peer in `peer`, or to standfast's own figure in `beside`. A figure that occurs
    in two rows has an `id` of its own in the second.
    """

    figure: str
    metric: str
    unit: Unit
    bar: Bar | None = None
    beside: str | None = None
    peer: str | None = None
    id: str | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row, measured: medians over its rounds. `passes` is None without a target or without a measurement."""

    id: str
    metric: str
    unit: Unit
    value: float | None
    peers: dict[str, float | None]
    best: str | None
    """The peer that the ratio refers to: the named one, or the one with the best median."""
    ratio: float | None
    bar: Bar | None
    passes: bool | None
    rounds: list[dict[str, float]]
    """Each round's values, by contestant."""
    count: int
    """How many of standfast's jobs each round measured (the median)."""
    seconds: float
    cut: bool
    """Whether the time was up before standfast was fully measured."""


def specs(sizes: Sizes) -> list[Spec]:
    """Return every row."""
    large, middle = count(sizes.large), count(sizes.middle)
    return [
        Spec("enqueue_one", "durable enqueue, one caller", "/s"),
        Spec("enqueue_64", "durable enqueue, 64 callers", "/s", Bar("ratio", 12.0)),
        Spec("bulk", "bulk of 1 000", "/s"),
        Spec("drain", "drain of no-op jobs to empty", "/s", Bar("ratio", 2.5), peer="PgQueuer"),
        Spec("drain", "the same", "/s", Bar("ratio", 1.2), peer="graphile-worker", id="drain_of_graphile"),
        Spec("drain_middle", f"drain with {middle} waiting", "/s"),
        Spec("drain_large", f"drain with {large} waiting, to {middle}", "/s", Bar("ratio", 0.8), "drain_middle"),
        Spec("start_inside_p50", "enqueue to start, in the process, p50", "ms", _shorter(), peer="PgQueuer"),
        Spec("start_inside_p99", "enqueue to start, in the process, p99", "ms"),
        Spec("start_across_p50", "enqueue to start, across processes, p50", "ms", _shorter(), peer="PgQueuer"),
        Spec("start_across_p99", "enqueue to start, across processes, p99", "ms"),
    ]


def _shorter() -> Bar:
    return Bar("ratio", 0.8, at_least=False)


def rows(rounds: list[Round], sizes: Sizes) -> list[Row]:
    """Compute every row from the measured rounds."""
    return [_row(spec, rounds) for spec in specs(sizes)]


def _row(spec: Spec, rounds: list[Round]) -> Row:
    own = [figures[spec.figure] for figures in _of(TITLE, rounds) if spec.figure in figures]
    values = [_values(spec.figure, each) for each in rounds]
    peers = {peer: _median(each[peer] for each in values if peer in each) for peer in PEERS}
    value = _median(figure.value for figure in own)
    best = None if spec.beside else spec.peer or _best(peers, spec.unit)
    ratio = _median(_ratios(spec, best, rounds))
    return Row(
        id=spec.id or spec.figure,
        metric=spec.metric,
        unit=spec.unit,
        value=value,
        peers=peers,
        best=best,
        ratio=ratio,
        bar=spec.bar,
        passes=None if spec.bar is None else spec.bar.met_by(value, ratio),
        rounds=values,
        count=round(_median(figure.count for figure in own) or 0),
        seconds=_median(figure.seconds for figure in own) or 0.0,
        cut=any(figure.cut for figure in own),
    )


def _values(figure: str, each: Round) -> dict[str, float]:
    return {title: figures[figure].value for title, figures in each.items() if figure in figures}


def _best(peers: dict[str, float | None], unit: Unit) -> str | None:
    """Return the peer with the best median: the most jobs per second, or the fewest milliseconds."""
    known = {peer: value for peer, value in peers.items() if value is not None}
    if not known:
        return None
    return (min if unit == "ms" else max)(known, key=lambda peer: known[peer])


def _ratios(spec: Spec, best: str | None, rounds: list[Round]) -> Iterable[float]:
    """Yield standfast's figure divided by its counterpart, for each round that has both."""
    for each in rounds:
        figure = each.get(TITLE, {}).get(spec.figure)
        other = each.get(TITLE, {}).get(spec.beside) if spec.beside else each.get(best or "", {}).get(spec.figure)
        if figure is not None and other is not None:
            yield figure.value / other.value


def _of(title: str, rounds: list[Round]) -> Iterable[dict[str, Figure]]:
    return (each.get(title, {}) for each in rounds)


def _median(values: Iterable[float]) -> float | None:
    known = list(values)
    return median(known) if known else None
