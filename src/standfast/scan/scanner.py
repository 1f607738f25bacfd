"""The scan: read every file, then apply every rule to every file, with the whole tree at hand."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from standfast.scan import (
    background_work,
    dangling_tasks,
    ignore_comments,
    line_queues,
    lost_coroutines,
    swallowed_errors,
    unchecked_responses,
    unread_results,
)
from standfast.scan.code_finding import Finding, ScanResult, Unreadable
from standfast.scan.codebase import Codebase
from standfast.scan.file_view import FileView
from standfast.scan.io_calls import IoCalls
from standfast.scan.source_tree import python_files, read

FINDERS = (
    dangling_tasks.find,
    lost_coroutines.find,
    unread_results.find,
    swallowed_errors.find,
    unchecked_responses.find,
    background_work.find,
    line_queues.find,
)


def scan(paths: Sequence[Path], exclude: Sequence[str] = ()) -> ScanResult:
    """Scan every Python file under these paths."""
    with _without_collection():
        files = [read(path, root) for path, root in python_files(paths, exclude)]
        parsed = [each for each in files if not isinstance(each, Unreadable)]
        codebase = Codebase(parsed)
        io_calls = IoCalls(codebase)
        found = [_look(FileView(module, codebase, io_calls)) for module, _ in parsed]
    findings = [finding for each, _ in found for finding in each]
    return ScanResult(
        findings=sorted(findings, key=_worst_first),
        unreadable=[each for each in files if isinstance(each, Unreadable)],
        files=len(files),
        lines=sum(len(module.lines) for module, _ in parsed),
        ignored=sum(ignored for _, ignored in found),
    )


def _look(view: FileView) -> tuple[list[Finding], int]:
    found = [finding for find in FINDERS for finding in find(view)]
    return ignore_comments.apply(view.module, _once(found))


def _once(findings: list[Finding]) -> list[Finding]:
    """Keep one finding per place: two names for one loss help nobody."""
    by_place: dict[tuple[int, int], Finding] = {}
    for finding in sorted(findings, key=_worst_first):
        by_place.setdefault((finding.line, finding.column), finding)
    return list(by_place.values())


def _worst_first(finding: Finding) -> tuple[int, str, int, int]:
    return finding.rank.order, finding.path, finding.line, finding.column


@contextmanager
def _without_collection() -> Iterator[None]:
    """Disable garbage collection: none of the millions of nodes is garbage, and it takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
