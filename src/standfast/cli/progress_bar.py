"""Progress of long work: bars on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from standfast.printable import escaped

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


class NoBars:
    """Shows nothing, for output that no person watches."""

    def announce(self, words: str) -> None:
        """Say nothing."""

    def update(self, accepted: int, settled: int) -> None:
        """Show nothing."""


class Bars:
    """Two bars on stderr, with messages above them."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._accepted = progress.add_task("accepted", total=total)
        self._settled = progress.add_task("settled", total=total)

    def announce(self, words: str) -> None:
        """Print a message above the bars."""
        self._progress.console.print(f"  {words}", markup=False, highlight=False)

    def update(self, accepted: int, settled: int) -> None:
        """Move the bars."""
        self._progress.update(self._accepted, completed=accepted)
        self._progress.update(self._settled, completed=settled)


@contextmanager
def bars(total: int) -> Iterator[Bars | NoBars]:
    """Show progress while the block lasts."""
    if not _is_looked_at():
        yield NoBars()
        return
    with _progress() as progress:
        yield Bars(progress, total)


@contextmanager
def bar(what: str) -> Iterator[Callable[[Any], None]]:
    """Show one bar while the block lasts; call the yielded function with each step to move it."""
    if not _is_looked_at():
        yield lambda _step: None
        return
    with _progress() as progress:
        task = progress.add_task(what, total=None)
        yield lambda step: progress.update(task, description=step.what, completed=step.done, total=step.total)


ShowShare = Callable[[str, float, str], None]
"""Shows a state, the fraction done, and a note."""


@contextmanager
def share_bar() -> Iterator[ShowShare | None]:
    """Show a bar for one job while the block lasts; None without a terminal."""
    if not _is_looked_at():
        yield None
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - an extra

    columns = (TextColumn("{task.description:>10}"), BarColumn(40), TaskProgressColumn(), TimeElapsedColumn())
    with _progress(*columns, TextColumn("{task.fields[note]}", markup=False)) as progress:
        task = progress.add_task("waits", total=1.0, note="")
        yield lambda state, share, note: progress.update(task, description=state, completed=share, note=escaped(note))


def _is_looked_at() -> bool:
    return sys.stderr.isatty() and find_spec("rich") is not None


def _progress(*columns: ProgressColumn) -> Progress:
    from rich.console import Console  # noqa: PLC0415 - rich is an extra, and slow to load
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    usual = (TextColumn("{task.description:>10}"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*(columns or usual), console=Console(stderr=True), transient=True)
