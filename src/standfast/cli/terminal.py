"""How results reach stdout: a table with colours where a person looks, plain aligned text or JSON elsewhere.

Everything passes through `escaped` here and nowhere else, so that no command can forget it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import click
import msgspec

from standfast.printable import escaped

GAP = "  "


class Cell(NamedTuple):
    """One text, with the style it has on a terminal."""

    text: str
    style: str = ""


class Table(NamedTuple):
    """Rows under named columns; without columns, a list of facts whose first cell is the name.

    The last column may be long: where it does not fit, it goes on below.
    """

    rows: Sequence[Sequence[str | Cell]]
    columns: Sequence[str] = ()
    title: str = ""


def show(*tables: Table) -> None:
    """Write tables, one below the other."""
    draw = _draw if _is_looked_at() else _print
    for table in tables:
        cells = [[_cell(cell) for cell in row] for row in table.rows]
        draw(table, cells)


def show_line(text: str) -> None:
    """Write one line."""
    click.echo(escaped(text))


def show_json(value: Any) -> None:
    """Write JSON: laid out for a person on a terminal, one line elsewhere."""
    text = escaped(msgspec.json.encode(value).decode())
    click.echo(msgspec.json.format(text) if sys.stdout.isatty() else text)


def as_text(value: Any) -> str:
    """Give a value as the text of a cell."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _is_looked_at() -> bool:
    return sys.stdout.isatty() and find_spec("rich") is not None


def _cell(cell: str | Cell) -> Cell:
    text, style = cell if isinstance(cell, Cell) else (cell, "")
    return Cell(escaped(text), style)


def _print(table: Table, cells: list[list[Cell]]) -> None:
    rows = [[cell.text for cell in row] for row in cells]
    if table.columns:
        rows.insert(0, [name.upper() for name in table.columns])
    widths = [max(len(text) for text in column) for column in zip(*rows, strict=True)]
    if table.title:
        click.echo(f"\n{table.title}")
    for row in rows:
        click.echo(GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _draw(table: Table, cells: list[list[Cell]]) -> None:
    from rich.console import Console  # noqa: PLC0415 - rich is an extra, and slow to load
    from rich.table import Table as Grid  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    grid = Grid(box=None, show_header=bool(table.columns), pad_edge=False, padding=(0, len(GAP), 0, 0))
    *short, long = table.columns or [""] * len(table.rows[0])
    for name in short:
        grid.add_column(name, no_wrap=True)
    grid.add_column(long, overflow="fold")
    for row in cells:
        grid.add_row(*(Text(cell.text, style=cell.style) for cell in row))
    console = Console(highlight=False)
    if table.title:
        console.print(f"\n{table.title}", style="bold underline")
    console.print(grid)
