"""How results reach stdout: a table with colours on a terminal, plain aligned text or JSON elsewhere.

All output passes through `escaped` here and nowhere else, so that no command can forget it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from standfast.printable import escaped

if TYPE_CHECKING:
    from rich.console import Console

GAP = "  "
NARROW = 30
"""If the long column would have less room than this, it goes below its row."""


class Cell(NamedTuple):
    """One text and its style on a terminal."""

    text: str
    style: str = ""


class Table(NamedTuple):
    """Rows under named columns; without columns, a list of facts whose first cell is the name.

    The last column may be long: if it does not fit, it continues below.
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


def show_line(text: str, style: str = "") -> None:
    """Write one line."""
    show_row([Cell(text, style)], [0])


def show_row(row: Sequence[str | Cell], widths: Sequence[int]) -> None:
    """Write one row of a table that is still growing; each cell has at least this width."""
    cells = [_cell(cell) for cell in row]
    padded = [Cell(text.ljust(width), style) for (text, style), width in zip(cells, widths, strict=True)]
    if _is_looked_at() and any(style for _, style in padded):
        _paint(padded)
    else:
        click.echo(GAP.join(text for text, _ in padded).rstrip())


def show_json(value: Any) -> None:
    """Write JSON: laid out for a person on a terminal, one line elsewhere."""
    text = _json(value)
    click.echo(msgspec.json.format(text) if sys.stdout.isatty() else text)


def show_json_line(value: Any) -> None:
    """Write JSON as one line of many."""
    click.echo(_json(value))


def as_text(value: Any) -> str:
    """Return a value as the text of a cell."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _json(value: Any) -> str:
    return escaped(msgspec.json.encode(value).decode())


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


def _paint(cells: list[Cell]) -> None:
    from rich.console import Console  # noqa: PLC0415 - rich is an extra, and slow to load
    from rich.text import Text  # noqa: PLC0415

    parts = [Text(text, style=style) for text, style in cells]
    Console(highlight=False, soft_wrap=True).print(Text(GAP).join(parts))


def _draw(table: Table, cells: list[list[Cell]]) -> None:
    from rich.console import Console  # noqa: PLC0415 - rich is an extra, and slow to load

    console = Console(highlight=False)
    if table.title:
        console.print(f"\n{table.title}", style="bold underline")
    if not cells and not table.columns:
        return
    widths = _widths([[Cell(name) for name in table.columns], *cells] if table.columns else cells)
    room = console.width - sum(width + len(GAP) for width in widths[:-1])
    if widths[-1] > room < NARROW:
        _draw_stacked(console, table, cells, widths)
    else:
        _draw_grid(console, table, cells)


def _draw_grid(console: Console, table: Table, cells: list[list[Cell]]) -> None:
    from rich.table import Table as Grid  # noqa: PLC0415 - rich is an extra, and slow to load
    from rich.text import Text  # noqa: PLC0415

    grid = Grid(box=None, show_header=bool(table.columns), pad_edge=False, padding=(0, len(GAP), 0, 0))
    *short, long = table.columns or [""] * len(cells[0])
    for name in short:
        grid.add_column(name, no_wrap=True)
    grid.add_column(long, overflow="fold")
    for row in cells:
        grid.add_row(*(Text(cell.text, style=cell.style) for cell in row))
    console.print(grid)


def _draw_stacked(console: Console, table: Table, cells: list[list[Cell]], widths: list[int]) -> None:
    """Put the long column below its row when there is too little room beside it."""
    from rich.padding import Padding  # noqa: PLC0415 - rich is an extra, and slow to load
    from rich.text import Text  # noqa: PLC0415

    head = [[Cell(name, "bold") for name in table.columns]] if table.columns else []
    for *short, long in [*head, *cells]:
        padded = zip(short, widths, strict=False)
        parts = [Text(text.ljust(width), style=style) for (text, style), width in padded]
        console.print(Text(GAP).join(parts), soft_wrap=True)
        if long.text:
            console.print(Padding(Text(long.text, style=long.style, overflow="fold"), (0, 0, 0, 2 * len(GAP))))


def _widths(cells: list[list[Cell]]) -> list[int]:
    return [max(len(cell.text) for cell in column) for column in zip(*cells, strict=True)]
