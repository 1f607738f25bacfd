"""HTTP responses whose status is only logged, or never checked."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from standfast.scan.code_finding import Finding
from standfast.scan.codebase import Codebase
from standfast.scan.file_view import FileView
from standfast.scan.known_names import CLIENTS, HTTP_SENDS, http_verb
from standfast.scan.parsed_module import Scope
from standfast.scan.scan_rules import UNCHECKED_STATUS
from standfast.scan.value_use import is_logging


def find(view: FileView) -> Iterator[Finding]:
    """Look at every call that sends something over HTTP."""
    if "event_hooks" in view.module.source or "raise_for_status=True" in view.module.source:
        return  # the client checks every status itself
    checked = raising_libraries(view.codebase)
    for call in view.module.nodes(ast.Call):
        verb = http_verb(view.callee(call))
        if verb is not None and _library(view.callee(call)) not in checked:
            yield from _unchecked(call, verb, view)


@lru_cache(maxsize=1)
def raising_libraries(codebase: Codebase) -> frozenset[str]:
    """Return the HTTP libraries for which the tree has a client subclass that raises for a status."""
    return frozenset(_library(base) for scope in codebase.classes.values() for base in _raising(scope, codebase))


def _library(name: str) -> str:
    return name.partition(".")[0]


def _raising(scope: Scope, codebase: Codebase) -> list[str]:
    """Return the HTTP clients that a class extends, if it raises for a status."""
    bases = scope.node.bases if isinstance(scope.node, ast.ClassDef) else []
    clients = [name for each in bases if (name := codebase.meaning(each, scope.parent or scope)) in CLIENTS and name]
    inside = ast.walk(scope.node) if clients else ()
    is_raising = any(isinstance(each, ast.Attribute) and each.attr == "raise_for_status" for each in inside)
    return clients if is_raising else []


def _unchecked(call: ast.Call, verb: str, view: FileView) -> Iterator[Finding]:
    value = _awaited(call, view)
    parent = view.module.parents[value]
    if isinstance(parent, ast.Expr):
        yield from _thrown_away(call, verb, view)
    elif isinstance(parent, ast.withitem):
        yield from _looked_at(call, verb, parent.optional_vars, view)
    elif isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        yield from _looked_at(call, verb, parent.targets[0], view)


def _awaited(call: ast.Call, view: FileView) -> ast.expr:
    parent = view.module.parents[call]
    return parent if isinstance(parent, ast.Await) else call


def _thrown_away(call: ast.Call, verb: str, view: FileView) -> Iterator[Finding]:
    if verb in HTTP_SENDS and not view.cleans_up(call) and not _is_async_without_await(call, view):
        yield view.finding(UNCHECKED_STATUS, call)


def _is_async_without_await(call: ast.Call, view: FileView) -> bool:
    is_async = "Async" in view.callee(call) or "aiohttp" in view.callee(call)
    return is_async and not isinstance(view.module.parents[call], ast.Await)


def _looked_at(call: ast.Call, verb: str, target: ast.expr | None, view: FileView) -> Iterator[Finding]:
    if target is None:
        yield from _thrown_away_block(call, verb, view)
        return
    scope = view.module.scope_of(call)
    if (
        not isinstance(target, ast.Name)
        or target.id in scope.outer
        or isinstance(scope.node, ast.ClassDef | ast.Module)
    ):
        return
    reads = list(scope.names_read(target.id))
    if reads and all(_is_logged(each, view) for each in reads):
        yield view.finding(UNCHECKED_STATUS, call, _ONLY_LOGGED)
    elif not reads:
        yield from _thrown_away_block(call, verb, view)


_ONLY_LOGGED = "The status of the response is only logged: an answer of 500 looks like success to the rest of the code."


def _thrown_away_block(call: ast.Call, verb: str, view: FileView) -> Iterator[Finding]:
    if verb in HTTP_SENDS and not view.cleans_up(call):
        yield view.finding(UNCHECKED_STATUS, call)


def _is_logged(name: ast.Name, view: FileView) -> bool:
    for each in view.module.ancestors(name):
        if isinstance(each, ast.Call) and is_logging(each):
            return True
        if isinstance(each, ast.stmt):
            return False
    return False
