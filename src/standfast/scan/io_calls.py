"""Which calls in a piece of code use the network or write, searched through functions of the tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from standfast.scan.codebase import Codebase, own_nodes
from standfast.scan.known_names import is_network, sends, writes
from standfast.scan.parsed_module import ParsedModule, Scope

DEEPEST = 2
"""How many nested calls into functions of the tree are followed."""


class IoCalls:
    """Searches for input and output."""

    def __init__(self, codebase: Codebase) -> None:
        self.codebase = codebase
        self._known: dict[tuple[str, str], str | None] = {}

    def network(self, body: Iterable[ast.AST], module: ParsedModule, depth: int = DEEPEST) -> str | None:
        """Return the first call that talks to another machine."""
        return self._first(body, module, self._is_network, depth)

    def changes(self, body: Iterable[ast.AST], module: ParsedModule, depth: int = DEEPEST) -> str | None:
        """Return the first call that sends or writes."""
        return self._first(body, module, self._is_change, depth)

    def sends(self, body: Iterable[ast.AST], module: ParsedModule, depth: int = DEEPEST) -> str | None:
        """Return the first call that changes something on another machine."""
        return self._first(body, module, self._is_sending, depth)

    def _is_sending(self, call: ast.Call, name: str) -> bool:
        has_body = len(call.args) > 1 or any(each.arg == "data" for each in call.keywords)
        return sends(name) or (name == "urllib.request.urlopen" and has_body)

    def _is_network(self, _call: ast.Call, name: str) -> bool:
        return is_network(name)

    def _is_change(self, call: ast.Call, name: str) -> bool:
        return sends(name) or writes(name) or opens_for(call, name, "wax+")

    def _first(self, body: Iterable[ast.AST], module: ParsedModule, wanted: Wanted, depth: int) -> str | None:
        calls = list(calls_in(body))
        names = [(call, self.codebase.callee(call, module) or "") for call in calls]
        for call, name in names:
            if wanted(call, name):
                return shown_call(call)
        if depth > 0:
            for _, name in names:
                if any(self._inside(name, scope, wanted, depth) for scope in self.codebase.functions.get(name, ())):
                    return f"{name.rpartition('.')[2]}()"
        return None

    def _inside(self, name: str, scope: Scope, wanted: Wanted, depth: int) -> str | None:
        key = (f"{name}/{depth}", wanted.__name__)
        if key not in self._known:
            self._known[key] = None
            body = [node for node in own_nodes(scope.node) if isinstance(node, ast.Call)]
            self._known[key] = self._first(body, scope.module, wanted, depth - 1)
        return self._known[key]


Wanted = Callable[[ast.Call, str], bool]


def calls_in(body: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """Yield every call in some code, except in functions defined inside it."""
    for statement in body:
        if isinstance(statement, ast.Call):
            yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from (node for node in own_nodes(statement) if isinstance(node, ast.Call))


def opens_for(call: ast.Call, name: str, modes: str) -> bool:
    """Return whether a call opens a file in one of these modes."""
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "open" and name != "os.open"
    if name not in {"builtins.open", "io.open"} and not is_method:
        return False
    position = 1 if name in {"builtins.open", "io.open"} else 0
    given = [each.value for each in call.keywords if each.arg == "mode"] + call.args[position : position + 1]
    mode = given[0].value if given and isinstance(given[0], ast.Constant) else "r"
    return isinstance(mode, str) and len(mode) <= len("rb+t") and any(each in mode for each in modes)


def shown_call(call: ast.Call) -> str:
    """Return a call in readable form: its name, without arguments."""
    return f"{ast.unparse(call.func)}()"
