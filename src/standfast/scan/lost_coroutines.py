"""Coroutines that are never awaited, async functions passed to plain callers, and gathers that are never awaited."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from standfast.scan.code_finding import Finding
from standfast.scan.codebase import Codebase, own_nodes
from standfast.scan.file_view import FileView
from standfast.scan.known_names import COROUTINES, EXECUTOR_NAME, EXECUTORS, GATHER
from standfast.scan.parsed_module import ParsedModule, Scope
from standfast.scan.scan_rules import ASYNC_CALLBACK, LOST_COROUTINE, LOST_GATHER
from standfast.scan.value_use import Fate, callback_of, is_called_back, last_name

TRANSPARENT = frozenset({"staticmethod", "classmethod", "override", "abstractmethod", "final", "overload", "wraps"})
"""Decorators after which an async function is still one."""


def find(view: FileView) -> Iterator[Finding]:
    """Look at every call."""
    for call in view.module.nodes(ast.Call):
        name = view.callee(call)
        if name == GATHER:
            yield from _lost_gather(call, view)
        elif _is_coroutine(name, view.codebase):
            yield from _lost_coroutine(call, view)
        yield from _async_callback(call, view)


def _lost_gather(call: ast.Call, view: FileView) -> Iterator[Finding]:
    parent = view.module.parents[call]
    target = parent.targets[0] if isinstance(parent, ast.Assign) else None
    if isinstance(target, ast.Name) and is_called_back(target, view.module):  # its tasks keep it
        return
    if isinstance(parent, ast.Attribute):
        return
    if view.values.of(call).fate is Fate.DROPPED:
        yield view.finding(LOST_GATHER, call)


def _lost_coroutine(call: ast.Call, view: FileView) -> Iterator[Finding]:
    if _is_condition(call, view):
        lost = f"{ast.unparse(call.func)}() is not awaited here: a coroutine is always true, and none of its code runs."
        yield view.finding(LOST_COROUTINE, call, lost)
    elif view.values.of(call).fate is Fate.DROPPED and not isinstance(view.module.parents[call], ast.Attribute):
        lost = f"{ast.unparse(call.func)}() is a coroutine that is never awaited, so none of its code runs."
        yield view.finding(LOST_COROUTINE, call, lost)


def _is_condition(call: ast.Call, view: FileView) -> bool:
    parent = view.module.parents[call]
    if isinstance(parent, ast.UnaryOp):
        return isinstance(parent.op, ast.Not)
    return isinstance(parent, ast.If | ast.While | ast.IfExp) and parent.test is call


def _is_coroutine(name: str, codebase: Codebase) -> bool:
    definitions = codebase.functions.get(name)
    if definitions is None:
        return name in COROUTINES
    return all(is_coroutine_function(scope) for scope in definitions)


def is_coroutine_function(scope: Scope) -> bool:
    """Return whether calling a function returns a coroutine."""
    node = scope.node
    if not isinstance(node, ast.AsyncFunctionDef):
        return False
    names = [last_name(each) for each in node.decorator_list]
    is_generator = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in own_nodes(node))
    return not is_generator and all(name in TRANSPARENT for name in names)


def _async_callback(call: ast.Call, view: FileView) -> Iterator[Finding]:
    function = callback_of(call, view.codebase, view.module) or _submitted(call, view)
    if function is None or not _is_async_function(function, view.codebase, view.module):
        return
    name = ast.unparse(function)
    called = ast.unparse(call.func)
    shown = name if len(name) <= LONGEST_SHOWN else "An async function"
    yield view.finding(ASYNC_CALLBACK, call, f"{shown} is async, but {called} calls it without await: {_NOTHING_RUNS}")


LONGEST_SHOWN = 40
_NOTHING_RUNS = "none of its code runs."


def _is_async_function(function: ast.expr, codebase: Codebase, module: ParsedModule) -> bool:
    definitions = codebase.definitions(function, module)
    return bool(definitions) and all(is_coroutine_function(scope) for scope in definitions)


def _submitted(call: ast.Call, view: FileView) -> ast.expr | None:
    return call.args[0] if call.args and is_submit(call, view) else None


def is_submit(call: ast.Call, view: FileView) -> bool:
    """Return whether a call passes a function to an executor."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in {"submit", "map"}:
        return False
    owner = call.func.value
    name = view.codebase.meaning(owner, view.module.scope_of(call))
    if name in EXECUTORS:
        return True
    is_of_the_tree = view.callee(call) in view.codebase.functions
    return not is_of_the_tree and EXECUTOR_NAME.search(last_name(owner)) is not None
