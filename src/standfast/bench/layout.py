"""The layout of a report's table: in colours on a terminal with rich, else in plain columns."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Collection, Sequence
from typing import NamedTuple

import click

COLOURS = {True: "green", False: "red", None: ""}
"""By whether a row reaches its target."""


class Layout(NamedTuple):
    """The headings of a table, its rows with whether each reaches its target, and the columns that hold words."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[tuple[str, ...], bool | None]]
    left: Collection[int]

    def show(self, heading: str, notes: Sequence[str]) -> None:
        """Print the table between its heading and the notes about it."""
        click.echo(heading)
        if sys.stdout.isatty() and importlib.util.find_spec("rich"):
            self._show_rich()
        else:
            click.echo("\n".join(self.plain()))
        click.echo("\n".join(["", *notes]))

    def plain(self) -> list[str]:
        """Lay the rows out in columns as wide as their widest cell."""
        lines = [self.headings, *(cells for cells, _ in self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.headings))]
        return ["  ".join(self._pad(cell, widths[at], at) for at, cell in enumerate(line)).rstrip() for line in lines]

    def _pad(self, cell: str, width: int, column: int) -> str:
        return cell.ljust(width) if column in self.left else cell.rjust(width)

    def _show_rich(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - an extra, and only for terminals
        from rich.table import Table  # noqa: PLC0415

        table = Table(box=None, pad_edge=False)
        for at, title in enumerate(self.headings):
            table.add_column(title, justify="left" if at in self.left else "right")
        for cells, passes in self.rows:
            table.add_row(*cells, style=COLOURS[passes])
        Console().print(table)
