"""The doors of a noun stand in its wing: their files can be imported in any order, and their templates are found."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
FRAMES = ("cli", "server", "dashboard", "mcp", "doors")
DOORS = ("routes", "pages", "commands", "tools", "many", "disposal_commands", "enqueue_commands")


def name_of(path: Path) -> str:
    """Give the name a file is imported by."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


FILES = {name_of(path): path for path in SOURCE.rglob("standfast/**/*.py")}


def is_door(name: str) -> bool:
    """Whether a file is of a frame, or a door of a wing."""
    _, *parts = name.split(".")
    return (parts[:1] == ["wings"] and parts[-1] in DOORS) or (parts[:1] != [] and parts[0] in FRAMES)


def imported(name: str) -> Iterator[str]:
    """Name what a file imports as it is imported, with the packages that this imports first."""
    for node in ast.parse(FILES[name].read_text()).body:
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            targets = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for target in targets:
            parts = target.split(".")
            yield from (".".join(parts[: n + 1]) for n in range(1, len(parts)))


def edges(name: str) -> set[str]:
    """Name the files that must be imported before this one; its own packages are under way by then."""
    return {each for each in imported(name) if each in FILES and not f"{name}.".startswith(f"{each}.")}


EDGES = {name: edges(name) for name in FILES}


def reached(start: str) -> set[str]:
    """Name everything that is imported, directly or not, when this file is."""
    found: set[str] = set()
    waiting = [*EDGES[start]]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += EDGES[name]
    return found


def test_the_doors_can_be_imported_in_any_order():
    """No door waits for a file that waits for it, also by way of a package's own file."""
    doors = [name for name in FILES if is_door(name)]
    assert len(doors) > 80
    assert [door for door in doors if door in reached(door)] == []


def test_each_template_stands_once():
    names = Counter(path.name for path in SOURCE.rglob("templates/*.html"))
    assert sum(names.values()) > 25
    assert [name for name, times in names.items() if times > 1] == []
