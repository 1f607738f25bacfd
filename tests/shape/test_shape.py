"""The shape of the code: sizes, imports, broad excepts, the public names, the named statements."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TypeVar

import pytest

import standfast
from standfast.store.statements import DIALECTS, load

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "standfast"
PUBLIC_API = Path(__file__).with_name("public_api.txt")

LONGEST_FILE = 400
LONGEST_FUNCTION = 40
MOST_PUBLIC_NAMES = 40

UPDATE_PUBLIC_API = """the public names changed; if that is meant, say so in CHANGELOG.md and run
    .venv/bin/python -c 'import standfast; print(*sorted(standfast.__all__), sep="\\n")' > tests/shape/public_api.txt
"""

QUOTED_OR_COMMENT = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)

Node = TypeVar("Node", bound=ast.AST)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed(path: Path) -> list[ast.AST]:
    """Read a file once for all tests that look at it."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def nodes(kind: type[Node], under: Path = SOURCE) -> Iterator[tuple[Path, Node]]:
    """Every node of this kind, with the file it stands in."""
    for path in sorted(under.rglob("*.py")):
        for node in parsed(path):
            if isinstance(node, kind):
                yield path.relative_to(ROOT), node


def length(function: Function) -> int:
    """Lines from the first statement to the last; signature and docstring are free."""
    body = function.body if ast.get_docstring(function, clean=False) is None else function.body[1:]
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


KEEP_WHAT_THEY_CATCH = {
    "concurrency/guarded.py call_guarded": "the guard of foreign code; whoever calls it says what becomes of the error",
    "concurrency/loops.py run": "the loop guard; it counts and logs",
    "worker/executor.py _attempt": "the attempt boundary; the history of the job keeps the error",
}
"""Where an except may catch everything and not raise it again. Notices are delivered by jobs: the attempt boundary."""
RAISE_IT_AGAIN = {
    "django/running.py _naming_errors": "it names the class of the error for Django's result",
    "store/engine.py _lead": "it gives a round back that a signal broke off",
    "store/engine.py _transact": "it rolls back",
    "store/waiting_requests.py _lead_round": "it has what was led wait again",
}
"""Where an except catches everything to undo or to name something. Prefer `finally` or an ExitStack."""


def is_broad(handler: ast.ExceptHandler) -> bool:
    """Whether it catches everything: bare, or naming Exception or BaseException."""
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(each) in {"Exception", "BaseException"} for each in caught)


def statements(dialect: str) -> list[tuple[str, str]]:
    """Give each name with its SQL, quoted text and comments taken out."""
    return [(name, QUOTED_OR_COMMENT.sub(" ", each.sql)) for name, each in load(dialect).items()]


def test_no_file_is_too_long():
    lengths = {path.relative_to(ROOT): path.read_bytes().count(b"\n") for path in SOURCE.rglob("*.py")}
    assert lengths
    assert {str(path): lines for path, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_no_function_is_too_long():
    functions: list[tuple[Path, Function]] = [*nodes(ast.FunctionDef), *nodes(ast.AsyncFunctionDef)]
    assert functions
    lengths = {f"{path}:{node.lineno} {node.name}": length(node) for path, node in functions}
    assert {function: lines for function, lines in lengths.items() if lines > LONGEST_FUNCTION} == {}


def broad_excepts() -> dict[str, bool]:
    """By file and function, every except that catches everything, and whether it raises that again at its end."""
    functions: list[tuple[Path, Function]] = [*nodes(ast.FunctionDef), *nodes(ast.AsyncFunctionDef)]
    return {
        f"{(ROOT / path).relative_to(SOURCE)} {function.name}": ast.unparse(node.body[-1]) == "raise"
        for path, function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.ExceptHandler) and is_broad(node)
    }


def test_an_except_that_catches_everything_stands_only_where_it_may():
    found = broad_excepts()
    assert {place for place, raised_again in found.items() if not raised_again} == KEEP_WHAT_THEY_CATCH.keys()
    assert {place for place, raised_again in found.items() if raised_again} == RAISE_IT_AGAIN.keys()


def test_no_except_that_catches_everything_stands_outside_of_a_function():
    inside = {
        id(each) for kind in (ast.FunctionDef, ast.AsyncFunctionDef) for _, at in nodes(kind) for each in ast.walk(at)
    }
    assert [str(path) for path, node in nodes(ast.ExceptHandler) if is_broad(node) and id(node) not in inside] == []
    suppressing = [node for _, node in nodes(ast.Call) if ast.unparse(node.func).endswith("suppress")]
    assert suppressing
    assert [ast.unparse(each) for each in suppressing if re.search(r"\b(Base)?Exception\b", ast.unparse(each))] == []


def test_the_public_names_are_few_and_meant():
    assert len(standfast.__all__) <= MOST_PUBLIC_NAMES
    assert sorted(standfast.__all__) == PUBLIC_API.read_text(encoding="utf-8").split(), UPDATE_PUBLIC_API
    assert [name for name in standfast.__all__ if not hasattr(standfast, name)] == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_under_each_name_stands_one_statement(dialect):
    crowded = [name for name, sql in statements(dialect) if len([part for part in sql.split(";") if part.strip()]) > 1]
    assert crowded == []


def test_every_statement_is_needed_by_a_dialect():
    needed = {name for dialect in DIALECTS for name, sql in statements(dialect) if sql.strip()}
    assert load("sqlite").keys() - needed == set()


SUBQUERY = re.compile(r"\b(?:FROM|JOIN|LATERAL)\s*\((?=\s*(?:SELECT|VALUES|WITH)\b)", re.IGNORECASE)
NAMED = re.compile(r"\s*(?:AS\s+)?(?!(?:ON|WHERE|JOIN|LEFT|CROSS|ORDER|GROUP|LIMIT|UNION)\b)\w+", re.IGNORECASE)


def test_every_subquery_has_a_name():
    """PostgreSQL before 16 wants one, and the server that these tests start does not."""
    named = statements("postgres")
    nameless = [
        name for name, sql in named for found in SUBQUERY.finditer(sql) if not NAMED.match(after(sql, found.end()))
    ]
    assert nameless == []


def after(sql: str, place: int) -> str:
    """Give what stands behind the bracket that is open at a place."""
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(sql[place], 0)
        place += 1
    return sql[place:]


def test_every_statement_is_used():
    quoted = {node.value for _, node in nodes(ast.Constant, under=SOURCE)}
    assert [name for name in load("sqlite") if name not in quoted] == []


IMPORTED_AS = {"opentelemetry_api": "opentelemetry"}
"""Packages that are imported under another name than the one they are installed by."""


def test_every_package_that_is_imported_is_declared():
    """What a dependency brings along today may be gone with its next version."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    declared = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {re.split(r"[^\w-]", requirement)[0].replace("-", "_") for requirement in declared}
    names |= {IMPORTED_AS[name] for name in names & IMPORTED_AS.keys()}
    assert imported() - sys.stdlib_module_names - {"standfast"} - names == set()


def imported() -> set[str]:
    """Give the top names of everything the source imports."""
    whole = {alias.name for path, node in nodes(ast.Import) for alias in node.names}
    found = (node for path, node in nodes(ast.ImportFrom))
    parts = {node.module for node in found if node.module and not node.level}
    return {name.split(".")[0] for name in whole | parts}


def test_notices_are_told_by_kinds_that_can_be_subscribed_to():
    """The type checker refuses any other (`tests/typing/telling.py`), if nobody told it to look away."""
    told = [
        line.strip() for file in SOURCE.rglob("*.py") for line in file.read_text().splitlines() if ".notices[" in line
    ]
    assert len(told) > 30
    assert [line for line in told if re.search(r"""\.notices\[f?["']|type: ignore""", line)] == []
