"""The report for people: a table, what was measured, and what falls short."""

from __future__ import annotations

from standfast.bench.layout import Layout
from standfast.bench.report import Report
from standfast.bench.rows import Bar, Row, Unit

HEADINGS = ("metric", "standfast", "beside it", "", "ratio", "bar", "")
TIMES = "\N{MULTIPLICATION SIGN}"
LEFT = frozenset({0, 2, 6})
"""The columns that hold words."""


def show(report: Report) -> None:
    """Print the report, in colours on a terminal with rich."""
    layout(report).show(heading(report), notes(report))


def heading(report: Report) -> str:
    """Say what was measured, and where."""
    machine, disk = report.machine, report.machine["file_system"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    return (
        f"{machine['date']}  {versions}\n"
        f"{machine['cores']} cores ({machine['processor']}), {machine['system']}, "
        f"load {machine['load_before']} before and {machine['load_after']} after\n"
        f"{machine['directory']} on {disk['kind']} ({disk['device']}), synchronous=FULL, "
        f"{report.settings['payload_bytes']} bytes a job, median of {report.settings['rounds']} interleaved rounds, "
        f"{report.took_seconds:.0f} s\n"
    )


def layout(report: Report) -> Layout:
    """Return the layout of the table."""
    return Layout(HEADINGS, [(cells(row), row.passes) for row in report.rows], LEFT)


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of one row."""
    ratio = "" if row.ratio is None else f"{digits(row.ratio)} {TIMES}"
    return (
        row.metric,
        quantity(row.value, row.unit),
        row.beside_is,
        quantity(row.beside, row.unit) if row.beside_is else "",
        ratio,
        "" if row.bar is None else bar_text(row.bar, row.unit),
        verdict(row),
    )


def verdict(row: Row) -> str:
    """Say whether the target is met."""
    if row.value is None:
        return "not measured"
    word = {True: "pass", False: "falls short", None: ""}[row.passes]
    return f"{word}, cut short" if word and row.cut else word


def quantity(value: float | None, unit: Unit) -> str:
    """Format a figure with its unit."""
    if value is None:
        return "-"
    return f"{value:,.0f} /s".replace(",", " ") if unit == "/s" else f"{digits(value)} {unit}"


def bar_text(bar: Bar, unit: Unit) -> str:
    """Format a target."""
    return f"{'≥' if bar.at_least else '≤'} {bar.bound:g} {TIMES if bar.of == 'ratio' else unit}"


def digits(value: float) -> str:
    """Format a number with three significant digits."""
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"  # noqa: PLR2004


def notes(report: Report) -> list[str]:
    """Say how much was measured, and what falls short."""
    judged = [row for row in report.rows if row.passes is not None]
    short = [f"{row.metric} ({row.beside_is})" if row.beside_is else row.metric for row in judged if not row.passes]
    measured = {row.metric: _measured(row) for row in report.rows if row.value is not None}
    return [
        "Measured:",
        *(f"  {metric}: {how_much}" for metric, how_much in measured.items()),
        *(f"Note: {remark}." for remark in report.remarks),
        f"{len(judged) - len(short)} of {len(judged)} bars are met" + ("." if not short else "; these are not:"),
        *(f"  {metric}" for metric in short),
    ]


def _measured(row: Row) -> str:
    times = f"{len(row.rounds)} rounds of " if len(row.rounds) > 1 else "once, "
    jobs = f"{row.count:,} jobs in ".replace(",", " ") if row.count else ""
    return f"{times}{jobs}{row.seconds:.2f} s"
