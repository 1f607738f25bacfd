"""The diagram in `docs/states.md` is drawn from the table the code decides by."""

from __future__ import annotations

import re
from pathlib import Path

from standfast.lifecycle import BIRTHS, FINAL, MOVES, State, diagram

PAGE = Path(__file__).parents[2] / "docs" / "states.md"
DRAWN = re.compile(r"```mermaid\n(.*?)```", re.DOTALL)
ARROW = re.compile(r"    (\S+) --> ([^\s:]+)(?:: (.+))?")

UPDATE = """the states or moves changed; draw the page's diagram anew from
    .venv/bin/python -c 'from standfast.lifecycle import diagram; print(diagram())'
"""


def arrows() -> list[tuple[str, str, str | None]]:
    """Read the drawing back: from, to, and the moves on the arrow."""
    first, *lines = diagram().splitlines()
    assert first == "stateDiagram-v2"
    found = [ARROW.fullmatch(line) for line in lines]
    return [(arrow[1], arrow[2], arrow[3]) for arrow in found if arrow is not None]


def test_the_docs_show_the_diagram_of_the_code():
    assert DRAWN.findall(PAGE.read_text(encoding="utf-8")) == [diagram()], UPDATE


def test_every_line_is_an_arrow():
    assert len(arrows()) == len(diagram().splitlines()) - 1


def test_every_move_is_drawn_once_and_none_besides():
    drawn = [(move, source, target) for source, target, moves in arrows() if moves for move in moves.split(", ")]
    expected = [(move, source, target) for move, (sources, target) in MOVES.items() for source in sources]
    assert sorted(drawn) == sorted(expected)


def test_births_and_ends_are_drawn():
    assert {target for source, target, _ in arrows() if source == "[*]"} == BIRTHS
    assert {source for source, target, _ in arrows() if target == "[*]"} == FINAL


def test_the_docs_name_every_state():
    page = PAGE.read_text(encoding="utf-8")
    assert [state for state in State if f"`{state}`" not in page] == []
