"""The house, measured: each measure has a goal and a bound that holds now.

To lower a bound, write what is measured into LIMITS.

`tests/shape/test_shape.py` keeps what already holds for good; here stands what a move is under way for.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import standfast

SOURCE = Path(standfast.__file__).parent
SPINE = SOURCE / "spine"
WINGS = SOURCE / "wings"

IN_EVERY_WING = frozenset(
    f"{name}.py"
    for name in ("words", "rules", "scripts", "verbs", "rider", "routes", "commands", "pages", "tools", "shapes")
)
"""The file names that every wing may have: what they hold is told by the wing's own name."""
IN_EVERY_PACKAGE = frozenset({"__init__.py", "__main__.py"})


Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def files() -> dict[Path, str]:
    """Read the whole package, once for all measures."""
    return {path: path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(text) for path, text in files().items()}


def place(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def nodes() -> Iterator[tuple[Path, ast.AST]]:
    """Give every node with the file it stands in."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            yield path, node


# --- the measures: each gives what it counts, so that a failure names it


def colliding_module_names() -> list[str]:
    """Give the module names that stand in several packages, but for those of wings and of Django's commands."""
    named = [path for path in files() if path.name not in IN_EVERY_PACKAGE and not is_standard(path)]
    named = [path for path in named if path.parent.name != "commands" or path.parent.parent.name != "management"]
    counted = Counter(path.name for path in named)
    return [name for name, count in sorted(counted.items()) if count > 1]


def is_standard(path: Path) -> bool:
    return path.name in IN_EVERY_WING and path.is_relative_to(WINGS)


def silenced_types() -> list[str]:
    """Lines on which the type checker is told to look away."""
    lines = ((path, number, line) for path, text in files().items() for number, line in enumerate(text.splitlines(), 1))
    return [f"{place(path)}:{number}" for path, number, line in lines for _ in range(line.count("type: ignore"))]


def blocking_twins() -> list[str]:
    """Functions that do for a thread what another does for the event loop."""
    return [
        f"{place(path)}:{node.lineno} {node.name}"
        for path, node in nodes()
        if isinstance(node, Function) and node.name.endswith("_blocking")
    ]


def methods_of_the_widest_class() -> list[str]:
    """Public methods of the class that has most of them."""
    widest: list[str] = []
    for path, node in nodes():
        if isinstance(node, ast.ClassDef):
            public = [each.name for each in node.body if isinstance(each, Function) and not each.name.startswith("_")]
            widest = max(widest, [f"{place(path)} {node.name}.{name}" for name in public], key=len)
    return widest


def files_at_the_root() -> list[str]:
    return [path.name for path in files() if path.parent == SOURCE]


def lines_of_spine() -> list[str]:
    """Every line of the spine, as the file it stands in and its number."""
    return [f"{place(path)}:{number + 1}" for path in in_spine() for number in range(files()[path].count("\n"))]


def wings_that_spine_imports() -> list[str]:
    found = [(path, name) for path in in_spine() for name in imported(path)]
    return [f"{place(path)} {name}" for path, name in found if f"{name}.".startswith("standfast.wings.")]


def in_spine() -> list[Path]:
    return [path for path in files() if path.is_relative_to(SPINE)]


def imported(path: Path) -> Iterator[str]:
    """Give the full name of every module, or name in a module, that a file imports."""
    package = ["standfast", *path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(trees()[path]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


class Limit(NamedTuple):
    """What is counted, how many there may be in the end, and how many there may be now."""

    found: Callable[[], list[str]]
    goal: int
    bound: int


LIMITS = {
    "colliding module names": Limit(colliding_module_names, goal=0, bound=0),
    "silenced types": Limit(silenced_types, goal=25, bound=18),
    "blocking twins": Limit(blocking_twins, goal=0, bound=0),
    "public methods of the widest class": Limit(methods_of_the_widest_class, goal=22, bound=22),
    "files at the package's root": Limit(files_at_the_root, goal=18, bound=18),
    "lines of spine/": Limit(lines_of_spine, goal=2600, bound=2600),
    "wings that spine/ imports": Limit(wings_that_spine_imports, goal=0, bound=0),
}
MOST_SHOWN = 100


@pytest.mark.parametrize("what", LIMITS)
def test_the_house_has_no_more_than_it_may(what: str):
    assert files(), "the package was not found"
    limit = LIMITS[what]
    found = limit.found()
    listing = "\n  ".join([f"{len(found)} {what}, at most {limit.bound}", *found[-MOST_SHOWN:]])
    assert len(found) <= limit.bound, listing
