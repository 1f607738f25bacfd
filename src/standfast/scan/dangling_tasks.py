"""Tasks without a reference, and tasks that are kept but never awaited."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from standfast.scan.code_finding import Finding
from standfast.scan.codebase import Codebase, own_nodes, returned_values
from standfast.scan.file_view import FileView
from standfast.scan.known_names import LOOP_NAME, TASK_MAKERS
from standfast.scan.parsed_module import Function, ParsedModule, Scope
from standfast.scan.scan_rules import DANGLING_TASK, TASK_NEVER_AWAITED
from standfast.scan.value_use import Fate, ValueUse, callback_of, last_name


def find(view: FileView) -> Iterator[Finding]:
    """Look at every call that starts a task."""
    for call in view.module.nodes(ast.Call):
        value = _task_of(call, view)
        if value is not None:
            yield from _judge(value, call, view)
        elif _is_called_back(call, view):
            yield view.finding(DANGLING_TASK, call)


def _is_called_back(call: ast.Call, view: FileView) -> bool:
    """Return whether the event loop itself calls create_task: it throws away the returned task."""
    function = callback_of(call, view.codebase, view.module)
    if not isinstance(function, ast.Name | ast.Attribute):
        return False
    return _names_task_maker(function, view.codebase, view.module)


def _judge(value: ast.expr, call: ast.Call, view: FileView) -> Iterator[Finding]:
    use = view.values.of(value)
    if use.fate is Fate.DROPPED and _is_in_destructor(call, view):
        return
    if use.fate is Fate.DROPPED and (name := _held_while_waiting(value, view)):
        yield view.finding(
            TASK_NEVER_AWAITED, call, f"Only {name} keeps the task, {_UNTIL_THE_END}", _instead(call, view)
        )
    elif use.fate is Fate.DROPPED:
        yield view.finding(DANGLING_TASK, call, _wording(call, view), _instead(call, view))
    elif use.fate is Fate.STORED and use.store is not None and not view.values.is_ever_read(use):
        lost = f"{ast.unparse(use.store)} keeps the task, but {_NOTHING}"
        yield view.finding(TASK_NEVER_AWAITED, call, lost, _instead(call, view))


def _is_in_destructor(call: ast.Call, view: FileView) -> bool:
    """Return whether the call is in `__del__`: nothing can be awaited there, and what it closes is already garbage."""
    function = view.module.function_of(call)
    return function is not None and function.name == "__del__"


def _held_while_waiting(value: ast.expr, view: FileView) -> str:
    """Return the local variable that keeps the task while its function waits for an event, or for the program's end."""
    parent = view.module.parents[value]
    function = view.module.function_of(value)
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name) or function is None:
        return ""
    later = [each for each in own_nodes(function) if isinstance(each, ast.Call) and each.lineno > parent.lineno]
    name = parent.targets[0].id
    return name if name != "_" and any(last_name(each.func) in WAITS_LONG for each in later) else ""


WAITS_LONG = frozenset({"wait", "run_forever", "serve_forever", "run_until_complete", "wait_closed"})
_UNTIL_THE_END = "until its function ends; nothing awaits it, and its error is not raised."

_NOTHING = "nothing awaits or cancels it: it stops half-way when the process ends, and its error is not raised."


def _wording(call: ast.Call, view: FileView) -> str:
    if not view.codebase.functions.get(view.callee(call)):
        return ""
    return f"{ast.unparse(call.func)}() returns a task and nobody keeps it: {_DIES}"


_DIES = "it can be garbage-collected before it ends, its error is never raised, and it dies with the process."


def _instead(call: ast.Call, view: FileView) -> str:
    """Return the replacement line with the actual function and arguments, if they are known."""
    work = call.args[0] if call.args else None
    definitions = view.codebase.definitions(work.func, view.module) if isinstance(work, ast.Call) else []
    payload = _payload(work, definitions[0]) if isinstance(work, ast.Call) and len(definitions) == 1 else None
    if payload is None or not isinstance(work, ast.Call) or not isinstance(work.func, ast.Name):
        return ""
    return f"await {work.func.id}.enqueue({payload}), with @sf.handler(...) on {work.func.id}"


def _payload(work: ast.Call, scope: Scope) -> str | None:
    node = scope.node
    if not isinstance(node, Function) or any(isinstance(each, ast.Starred) for each in work.args):
        return None
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    pairs = [*zip(names, work.args, strict=False), *((each.arg or "**", each.value) for each in work.keywords)]
    shown = ", ".join(f'"{name}": {ast.unparse(value)}' for name, value in pairs)
    return f"{{{shown}}}" if len(shown) <= LONGEST_PAYLOAD else None


LONGEST_PAYLOAD = 80


def _task_of(call: ast.Call, view: FileView) -> ast.expr | None:
    """Return the expression whose value is the task that a call starts."""
    if is_task_maker(call, view.codebase, view.module):
        return call
    for scope in view.codebase.functions.get(view.callee(call), ()):
        if not _returns_task(scope, view.codebase, frozenset()):
            return None
        if not isinstance(scope.node, ast.AsyncFunctionDef):
            return call
        parent = view.module.parents[call]
        return parent if isinstance(parent, ast.Await) else None
    return None


def is_task_maker(call: ast.Call, codebase: Codebase, module: ParsedModule) -> bool:
    """Return whether a call starts a task that only the caller can keep."""
    return _names_task_maker(call.func, codebase, module) and not _is_task_already(call, module)


def _names_task_maker(function: ast.expr, codebase: Codebase, module: ParsedModule) -> bool:
    name = codebase.meaning(function, module.scope_of(function))
    if name in TASK_MAKERS:
        return True
    if name in codebase.functions or not isinstance(function, ast.Attribute) or function.attr != "create_task":
        return False
    owner = codebase.meaning(function.value, module.scope_of(function))
    is_known = owner is not None and owner.endswith("()")
    return not is_known and LOOP_NAME.search(last_name(function.value)) is not None


def _is_task_already(call: ast.Call, module: ParsedModule) -> bool:
    """Return whether ensure_future gets a task, which it returns unchanged: a name read elsewhere is no coroutine."""
    if last_name(call.func) != "ensure_future" or not call.args or not isinstance(call.args[0], ast.Name):
        return False
    name = call.args[0].id
    scope = module.scope_of(call)
    return len(list(scope.names_read(name))) > 1


def _returns_task(scope: Scope, codebase: Codebase, seen: frozenset[Scope]) -> bool:
    """Return whether a function of the tree returns a task that it does not keep itself."""
    if scope in seen or _is_generator_or_decorated(scope):
        return False
    returned = list(returned_values(scope))
    return any(_is_unkept_task(value, scope, codebase, seen | {scope}) for value in returned)


def _is_generator_or_decorated(scope: Scope) -> bool:
    node = scope.node
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []
    return any(not isinstance(each, ast.Name) or each.id not in {"staticmethod", "classmethod"} for each in decorators)


def _is_unkept_task(value: ast.expr, scope: Scope, codebase: Codebase, seen: frozenset[Scope]) -> bool:
    if isinstance(value, ast.Call):
        if is_task_maker(value, codebase, scope.module):
            return True
        name = codebase.callee(value, scope.module) or ""
        inner = [each for each in codebase.functions.get(name, ()) if isinstance(each.node, ast.FunctionDef)]
        return any(_returns_task(each, codebase, seen) for each in inner)
    return isinstance(value, ast.Name) and _is_unkept_name(value, scope, codebase, seen)


def _is_unkept_name(name: ast.Name, scope: Scope, codebase: Codebase, seen: frozenset[Scope]) -> bool:
    """Look at a local variable: it must hold a task, and every read of it must be a return or have no effect."""
    values = [getattr(binding, "value", None) for binding in scope.bindings.get(name.id, ())]
    made = [value for value in values if isinstance(value, ast.Call)]
    if not made or len(made) != len(values):
        return False
    uses = ValueUse(scope.module, codebase)
    return all(_is_unkept_task(call, scope, codebase, seen) and uses.of(call).fate is Fate.RETURNED for call in made)
