"""The report for people: a table, what was not measured and why, and what falls short."""

from __future__ import annotations

from standfast.bench.layout import Layout
from standfast.bench.postgres.peer_report import Report
from standfast.bench.postgres.peer_rows import PEERS, Row
from standfast.bench.postgres.product import TITLE
from standfast.bench.table import TIMES, bar_text, digits, quantity

HEADINGS = ("metric", TITLE, *PEERS, "ratio", "bar", "")
LEFT = frozenset({0, len(HEADINGS) - 1})
"""The columns that hold words."""


def show(report: Report) -> None:
    """Print the report, in colours on a terminal with rich."""
    layout(report).show(heading(report), notes(report))


def heading(report: Report) -> str:
    """Say what was measured, and where."""
    machine, server = report.machine, report.server
    versions = ", ".join(f"{name} {number}" for name, number in (machine["versions"] | report.peers).items())
    settings = ", ".join(f"{name}={value}" for name, value in server["settings"].items() if value is not None)
    where = server["data_directory"] or "a directory it does not tell"
    kind = f" ({server['file_system']})" if server["file_system"] else ""
    return (
        f"{machine['date']}  {versions}\n"
        f"{machine['cores']} cores ({machine['processor']}), {machine['system']}, "
        f"load {machine['load_before']} before and {machine['load_after']} after\n"
        f"PostgreSQL {server['version']}, {settings}, data in {where}{kind}\n"
        f"{report.settings['payload_bytes']} bytes a job, synchronous_commit=on for all, "
        f"median of {report.settings['rounds']} interleaved rounds, {report.took_seconds:.0f} s\n"
    )


def layout(report: Report) -> Layout:
    """Return the layout of the table."""
    return Layout(HEADINGS, [(cells(row), row.passes) for row in report.rows], LEFT)


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of one row."""
    return (
        row.metric,
        quantity(row.value, row.unit),
        *(quantity(row.peers[peer], row.unit) for peer in PEERS),
        "" if row.ratio is None else f"{digits(row.ratio)} {TIMES}",
        "" if row.bar is None else bar_text(row.bar, row.unit),
        verdict(row),
    )


def verdict(row: Row) -> str:
    """Say whether the target is met; without anything to compare with, it is not."""
    if row.value is None:
        return "not measured"
    if row.bar is not None and row.passes is None:
        return "nothing beside it"
    word = {True: "pass", False: "falls short", None: ""}[row.passes]
    return f"{word}, cut short" if word and row.cut else word


def notes(report: Report) -> list[str]:
    """Say how much was measured, what was not, and what falls short."""
    barred = [row for row in report.rows if row.bar is not None]
    short = [row for row in barred if not row.passes]
    return [
        "Measured, of standfast (peers likewise, for at most as long as the settings allow; ratios are to the best):",
        *(f"  {row.metric}: {_measured(row)}" for row in report.rows if row.value is not None),
        "Drains from a standing backlog are held against the product itself; peers are not measured there.",
        *(f"Not measured: {who}: {why}." for who, why in report.not_measured.items()),
        *(f"Note: {remark}." for remark in report.remarks),
        f"{len(barred) - len(short)} of {len(barred)} bars are met" + ("." if not short else "; these are not:"),
        *(f"  {row.metric}: {verdict(row)}" for row in short),
    ]


def _measured(row: Row) -> str:
    times = f"{len(row.rounds)} rounds of " if len(row.rounds) > 1 else "once, "
    return f"{times}{row.count} jobs in {row.seconds:.2f} s"
