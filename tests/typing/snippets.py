"""Write the Python of README and docs as modules that type checkers can read: one for each page.

Run `python -m tests.typing.snippets`; it fills `docs_snippets/`, a function for each block. What a block uses and does
not define is made up: public names of standfast and modules are imported, `sf` is a Standfast, `job` a Job, anything
else may be anything.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import re
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import standfast
import standfast.testing

ROOT = Path(__file__).parents[2]
WRITTEN = ROOT / "docs_snippets"
BLOCK = re.compile(r"^( *)```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
KNOWN = {
    "Path": "from pathlib import Path",
    "id": "id = str()",
    "job": "job = cast(standfast.Job[Any], None)",
    "sf": "sf = standfast.Standfast()",
    "Struct": "from msgspec import Struct",
    "Tickets": "from standfast.testing import Scenario as Tickets",
}
MODEL = "class {name}:\n    def __init__(self, **fields: Any) -> None: ..."
INSIDE = "architecture"
"""The page that shows standfast's own code, and no application's."""
BESIDE = frozenset({"django", "fastapi", "flask", "frameworks"})
"""Pages that show other libraries' code, much of it without types. Their programs are run by tests of their own, as are
those of the migration guides."""
MODULES = frozenset({"asyncio", "logging", "sqlite3", "time"})
HEAD = """# Written by tests/typing/snippets.py from {page}; do not edit.
# pyright: reportUnusedExpression=false, reportUnusedCoroutine=true
from __future__ import annotations
from typing import Any, cast
import standfast
"""


def pages() -> list[Path]:
    """Give every page that has Python in it."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    own = [page for page in found if page.stem not in {INSIDE, *BESIDE} and page.parent.name != "migrating"]
    return [page for page in own if BLOCK.search(page.read_text(encoding="utf-8"))]


def blocks(page: Path) -> list[str]:
    """Give the Python of a page, block by block."""
    return [textwrap.dedent(found[2]) for found in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def module(page: Path) -> str:
    """Write a page down as a module."""
    functions = [function(number, text) for number, text in enumerate(blocks(page))]
    return "\n".join([HEAD.format(page=page.relative_to(ROOT)), *functions, ""])


def function(number: int, text: str) -> str:
    """Write a block down as a function that begins with what the block does not define itself."""
    tree = ast.parse(text)
    lines = text.splitlines()
    missing = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and not is_installed(node.module or ""):
            missing |= {each.asname or each.name for each in node.names}
            lines[node.lineno - 1 : node.end_lineno] = ["pass"] * ((node.end_lineno or 0) - node.lineno + 1)
    head = f"async def block_{number}() -> None:\n"
    names = sorted(missing | set(free_names(tree)))
    return head + textwrap.indent("\n".join([*map(declared, names), *lines]), "    ")


def is_installed(name: str) -> bool:
    return importlib.util.find_spec(name.partition(".")[0]) is not None


def free_names(tree: ast.Module) -> Iterator[str]:
    """Give the names that a block reads and nothing in it defines."""
    nodes = list(ast.walk(tree))
    given = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    given |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    given |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    given |= {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    imports = (node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
    given |= {(each.asname or each.name).partition(".")[0] for node in imports for each in node.names}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id not in given and (node.id in KNOWN or not hasattr(builtins, node.id)):
            yield node.id


def declared(name: str) -> str:
    """Make up a name that a page takes for granted."""
    if name in KNOWN:
        return KNOWN[name]
    if name in standfast.__all__:
        return f"from standfast import {name}"
    if name in standfast.testing.__all__:
        return f"from standfast.testing import {name}"
    if name in MODULES:
        return f"import {name}"
    return MODEL.format(name=name) if name.istitle() else f"{name}: Any = None"


def write() -> None:
    """Write every page anew."""
    shutil.rmtree(WRITTEN, ignore_errors=True)
    WRITTEN.mkdir()
    for page in pages():
        (WRITTEN / f"{page.stem.lower().replace('-', '_')}.py").write_text(module(page), encoding="utf-8")


if __name__ == "__main__":
    write()
