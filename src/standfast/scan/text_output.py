"""The findings for people: grouped by rank, the worst first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from standfast.scan.code_finding import Finding, ScanResult
from standfast.scan.scan_rules import MEANINGS, RULES, Rank

COLOURS = {Rank.LOST_WORK: "red", Rank.HIDDEN_FAILURE: "magenta", Rank.AT_RISK: "yellow", Rank.NOTE: "cyan"}


class Line(NamedTuple):
    """One line, with its colour on a terminal."""

    text: str
    colour: str | None = None
    bold: bool = False


def report(result: ScanResult) -> Iterator[Line]:
    """Yield every line of the report."""
    for rank, group in groupby(result.findings, key=lambda finding: finding.rank):
        found = list(group)
        yield Line(f"{rank.value} ({len(found)}): {MEANINGS[rank]}", COLOURS[rank], bold=True)
        for finding in found:
            yield from _finding(finding)
        yield Line("")
    for unreadable in result.unreadable:
        yield Line(f"{unreadable.path}:{unreadable.line}: could not be read: {unreadable.problem}", "red")
    yield Line(summary(result), bold=True)


def _finding(finding: Finding) -> Iterator[Line]:
    yield Line(f"  {finding.place}  {finding.rule}", COLOURS[finding.rank])
    yield Line(f"      {finding.code}")
    yield Line(f"      {finding.lost}")
    yield Line(f"      instead: {finding.instead}", "green")


def summary(result: ScanResult) -> str:
    """Return the last line: how many findings, in how much code."""
    parts = [f"{_count(len(result.findings), 'finding')} in {_count(result.files, 'file')}, {result.lines} lines"]
    parts += [f"{result.ignored} ignored by comments"] if result.ignored else []
    parts += [f"{result.known} in the baseline"] if result.known else []
    parts += [f"{_count(len(result.unreadable), 'file')} could not be read"] if result.unreadable else []
    return "; ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def rules() -> Iterator[Line]:
    """List every rule."""
    for rule in RULES.values():
        yield Line(f"{rule.id}  ({rule.rank.value})", COLOURS[rule.rank], bold=True)
        yield Line(f"    {rule.title}. {rule.lost}")
        yield Line(f"    instead: {rule.instead}")
