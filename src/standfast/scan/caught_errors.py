"""Whether a function catches its own errors, so that its caller need not look at them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from standfast.scan.codebase import Codebase, own_nodes
from standfast.scan.parsed_module import Function, ParsedModule, Scope

DEEPEST = 2
"""How many nested calls into functions of the tree are followed."""


def handle_own_errors(functions: Iterable[ast.expr], codebase: Codebase, module: ParsedModule) -> bool:
    """Return whether every called function is known to catch its own errors."""
    called = [node for each in functions for node in _functions_in(each)]
    found = [scope for each in called for scope in _may_be(each, codebase, module)]
    return bool(found) and all(catches_all(each, codebase) for each in found)


def _may_be(function: ast.expr, codebase: Codebase, module: ParsedModule) -> list[Scope]:
    """Return the functions that an expression may be; if its object cannot be followed, all methods of that name."""
    if isinstance(function, ast.Attribute) and codebase.meaning(function, module.scope_of(function)) is None:
        return codebase.methods.get(function.attr, [])
    return codebase.definitions(function, module)


def _functions_in(node: ast.expr) -> Iterator[ast.expr]:
    calls = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
    yield from calls or [node]


def catches_all(scope: Scope, codebase: Codebase, depth: int = DEEPEST) -> bool:
    """Return whether every await of an async function, or the whole body of a plain one, is inside a broad try."""
    node = scope.node
    if not isinstance(node, Function):
        return False
    if any(HANDLES_ERRORS.search(ast.unparse(each)) for each in node.decorator_list) or _body_is_guarded(node):
        return True
    if isinstance(node, ast.AsyncFunctionDef) and _awaits_are_guarded(node, scope, codebase, depth):
        return True
    return depth > 0 and _only_calls_guarded(node, scope, codebase, depth)


def _body_is_guarded(function: Function) -> bool:
    working = [
        each for each in function.body if not isinstance(each, ast.Expr | ast.Assign | ast.AnnAssign | ast.Assert)
    ]
    if len(working) != 1:
        return False
    if isinstance(working[0], ast.Try):
        return _is_guard(working[0])
    if not isinstance(working[0], ast.While | ast.For | ast.AsyncFor | ast.With | ast.AsyncWith):
        return False
    return any(isinstance(each, ast.Try) and _is_guard(each) for each in working[0].body)


HANDLES_ERRORS = re.compile(r"(?:log|catch|handle|report|swallow|suppress)\w*_(?:exception|error)", re.IGNORECASE)
"""Decorators that handle the errors of what they decorate."""


def _awaits_are_guarded(function: ast.AsyncFunctionDef, scope: Scope, codebase: Codebase, depth: int) -> bool:
    awaits = [each for each in own_nodes(function) if isinstance(each, ast.Await | ast.AsyncFor | ast.AsyncWith)]
    return bool(awaits) and all(_is_guarded(each, scope) or _is_safe(each, scope, codebase, depth) for each in awaits)


def _is_safe(node: ast.AST, scope: Scope, codebase: Codebase, depth: int) -> bool:
    """Return whether the awaited call catches its own errors, or only waits."""
    if not isinstance(node, ast.Await) or not isinstance(node.value, ast.Call):
        return False
    if only_waits(node.value, codebase, scope.module):
        return True
    found = codebase.definitions(node.value.func, scope.module) if depth > 0 else []
    return bool(found) and all(catches_all(each, codebase, depth - 1) for each in found)


def hands_over(call: ast.Call, codebase: Codebase, module: ParsedModule, depth: int = DEEPEST) -> bool:
    """Return whether a coroutine only hands something over within the process: it awaits nothing that can fail."""
    found = codebase.definitions(call.func, module)
    return bool(found) and all(_hands_over(each, codebase, depth) for each in found)


def _hands_over(scope: Scope, codebase: Codebase, depth: int) -> bool:
    inside = [*own_nodes(scope.node)]
    awaits = [each.value for each in inside if isinstance(each, ast.Await)]
    if not isinstance(scope.node, ast.AsyncFunctionDef) or any(isinstance(each, FAILS_OR_WAITS) for each in inside):
        return False
    calls = [each for each in awaits if isinstance(each, ast.Call)]
    followed = depth > 0 and all(hands_over(each, codebase, scope.module, depth - 1) for each in calls)
    return len(calls) == len(awaits) and (followed or not calls)


FAILS_OR_WAITS = (ast.Raise, ast.Assert, ast.AsyncFor, ast.AsyncWith)


def only_waits(call: ast.Call, codebase: Codebase, module: ParsedModule) -> bool:
    """Return whether a call only waits for an event, some time or a place in a queue: that cannot fail."""
    name = codebase.callee(call, module) or ""
    if name in {"asyncio.Event().wait", "asyncio.sleep", "asyncio.Queue().put"}:
        return True
    if name in codebase.functions or not isinstance(call.func, ast.Attribute):
        return False
    is_put = call.func.attr == "put" and "queue" in _last_word(call.func.value).lower()
    return is_put or (call.func.attr == "wait" and not call.args)


def _is_guarded(node: ast.AST, scope: Scope) -> bool:
    inner = node
    for each in scope.module.ancestors(node):
        if isinstance(each, ast.Try) and inner in each.body and _is_guard(each):
            return True
        if each is scope.node:
            return False
        inner = each
    return False


def _only_calls_guarded(function: Function, scope: Scope, codebase: Codebase, depth: int) -> bool:
    """Return whether a function only calls another function of the tree, which catches its errors."""
    working = [each for each in function.body if not (isinstance(each, ast.Expr) and _is_text(each.value))]
    if len(working) != 1 or not isinstance(working[0], ast.Expr | ast.Return):
        return False
    value = working[0].value
    call = value.value if isinstance(value, ast.Await) else value
    found = codebase.definitions(call.func, scope.module) if isinstance(call, ast.Call) else []
    return bool(found) and all(catches_all(each, codebase, depth - 1) for each in found)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def _is_guard(attempt: ast.Try) -> bool:
    return any(is_broad(handler) and not _raises(handler) for handler in attempt.handlers)


def _raises(handler: ast.ExceptHandler) -> bool:
    return any(isinstance(each, ast.Raise) for each in own_nodes(handler))


def is_broad(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches every error."""
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(_last_word(each) in {"Exception", "BaseException"} for each in caught)


def _last_word(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
