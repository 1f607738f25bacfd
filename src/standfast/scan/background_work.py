"""Work that ends with the process: daemon threads, background tasks of web frameworks, Celery without acks_late."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from standfast.scan.code_finding import Finding
from standfast.scan.codebase import Codebase
from standfast.scan.file_view import CLEAN_UP_NAMES, FileView
from standfast.scan.known_names import BACKGROUND_TASK as BACKGROUND_TASK_CLASSES
from standfast.scan.known_names import BACKGROUND_TASKS, CLEAN_UP
from standfast.scan.parsed_module import Function, ParsedModule, Scope
from standfast.scan.scan_rules import BACKGROUND_TASK, CELERY_ACKS, DAEMON_THREAD
from standfast.scan.value_use import last_name


def find(view: FileView) -> Iterator[Finding]:
    """Look at every call."""
    for call in view.module.nodes(ast.Call):
        name = view.callee(call)
        if name in STARTERS:
            yield from _daemon_thread(call, view)
        elif name == f"{BACKGROUND_TASKS}.add_task" or name in BACKGROUND_TASK_CLASSES:
            yield from _background_task(call, view)
        elif isinstance(call.func, ast.Attribute) and call.func.attr in {"delay", "apply_async"}:
            yield from _celery(call, call.func.value, view)
    for node, scope in view.module.scopes.items():
        if isinstance(node, ast.ClassDef):
            yield from _daemon_class(node, scope, view)


def _background_task(call: ast.Call, view: FileView) -> Iterator[Finding]:
    """Report work after the response, unless it only closes or removes something."""
    given = call.args[0] if call.args else None
    function = given.body if isinstance(given, ast.Lambda) else given
    name = last_name(function).strip("_") if function is not None else ""
    if name not in CLEAN_UP and not name.startswith(CLEAN_UP_NAMES):
        yield view.finding(BACKGROUND_TASK, call)


def _daemon_thread(call: ast.Call, view: FileView) -> Iterator[Finding]:
    target = _target(call, view)
    if target is None or not _is_daemon(call, view) or _is_joined(call, view):
        return
    change = _change_in(target, view)
    if change is not None:
        yield view.finding(DAEMON_THREAD, call, _cut_off(change))


STARTERS = {"threading.Thread": ("target", 1), "threading.Timer": ("function", 1)}
"""What starts a thread, and the argument that holds its function."""


def _target(call: ast.Call, view: FileView) -> ast.expr | None:
    keyword, position = STARTERS[view.callee(call)]
    named = (each.value for each in call.keywords if each.arg == keyword)
    return next(named, call.args[position] if len(call.args) > position else None)


def _cut_off(change: str) -> str:
    return f"The daemon thread is cut off when the process ends, in the middle of {change}, too."


def _change_in(target: ast.expr, view: FileView) -> str | None:
    if isinstance(target, ast.Lambda):
        return view.io_calls.changes([target.body], view.module)
    for scope in view.codebase.definitions(target, view.module):
        if isinstance(scope.node, Function):
            return view.io_calls.changes(scope.node.body, scope.module)
    return None


def _is_daemon(call: ast.Call, view: FileView) -> bool:
    if any(each.arg == "daemon" and _is_true(each.value) for each in call.keywords):
        return True
    held = _held_by(call, view)
    if held is None:
        return False
    scope = view.module.function_of(call) or view.module.tree
    return any(_makes_daemon(node, held) for node in ast.walk(scope))


def _makes_daemon(node: ast.AST, held: str) -> bool:
    match node:
        case ast.Assign(targets=[ast.Attribute(attr="daemon") as attribute]):
            return ast.unparse(attribute.value) == held and _is_true(node.value)
        case ast.Call(func=ast.Attribute(attr="setDaemon") as attribute):
            return ast.unparse(attribute.value) == held
    return False


def _held_by(call: ast.Call, view: FileView) -> str | None:
    parent = view.module.parents[call]
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        return ast.unparse(parent.targets[0])
    return None


def _is_joined(call: ast.Call, view: FileView) -> bool:
    """Return whether code in the file joins the thread: under the name it is assigned to, or through a collection."""
    held = _held_by(call, view)
    joined = [node.value for node in view.module.nodes(ast.Attribute) if node.attr == "join"]
    if held is None:
        return any(isinstance(each, ast.Name) and "thread" in each.id.lower() for each in joined)
    last = held.rpartition(".")[2]
    return any(last_name(each) == last for each in joined)


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _daemon_class(node: ast.ClassDef, scope: Scope, view: FileView) -> Iterator[Finding]:
    """Report a subclass of Thread that is a daemon and writes or sends in its run()."""
    bases = {view.codebase.meaning(base, scope.parent or scope) for base in node.bases}
    runs = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "run"]
    if "threading.Thread" not in bases or not runs or not _declares_daemon(node):
        return
    is_joined = any(
        isinstance(each, ast.Attribute) and each.attr == "join" and last_name(each.value) == "self"
        for each in ast.walk(node)
    )
    change = None if is_joined else view.io_calls.changes(runs[0].body, view.module)
    if change is not None:
        yield view.finding(DAEMON_THREAD, runs[0], _cut_off(change))


def _declares_daemon(node: ast.ClassDef) -> bool:
    for each in ast.walk(node):
        if isinstance(each, ast.keyword) and each.arg == "daemon" and _is_true(each.value):
            return True
        if isinstance(each, ast.Assign) and _is_true(each.value) and last_name(each.targets[0]) == "daemon":
            return True
    return False


def _celery(call: ast.Call, task: ast.expr, view: FileView) -> Iterator[Finding]:
    task = _task_of_signature(task)
    definitions = view.codebase.definitions(task, view.module)
    early = [scope for scope in definitions if _is_early_task(scope, view.codebase)]
    if early and not acks_late_everywhere(view.codebase):
        name = ast.unparse(task)
        lost = f"The message is acknowledged before {name} runs: a worker that is killed loses it."
        yield view.finding(CELERY_ACKS, call, lost)


def _task_of_signature(node: ast.expr) -> ast.expr:
    """Return the task of `task.s(1)` and similar calls."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SIGNATURES:
        return node.func.value
    return node


SIGNATURES = frozenset({"s", "si", "signature", "subtask"})


def _is_early_task(scope: Scope, codebase: Codebase) -> bool:
    decorators = scope.node.decorator_list if isinstance(scope.node, Function) else []
    tasks = [each for each in decorators if _is_celery_task(each, scope, codebase)]
    options = [keyword for each in tasks if isinstance(each, ast.Call) for keyword in each.keywords]
    return bool(tasks) and not any(each.arg == "acks_late" and _is_true(each.value) for each in options)


def _is_celery_task(decorator: ast.expr, scope: Scope, codebase: Codebase) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = codebase.meaning(function, scope.parent or scope) or ""
    if name in {"celery.shared_task", "celery.Celery().task", "celery.task", "celery.app.shared_task"}:
        return True
    return isinstance(function, ast.Attribute) and function.attr == "task" and "celery" in last_name(function.value)


@lru_cache(maxsize=1)
def acks_late_everywhere(codebase: Codebase) -> bool:
    """Return whether the tree turns acks_late on for all tasks."""
    return any(_sets_acks_late(module) for module in codebase.parsed)


def _sets_acks_late(module: ParsedModule) -> bool:
    if "acks_late" not in module.source.lower():
        return False
    return any(_is_setting(node) for node in ast.walk(module.tree))


def _is_setting(node: ast.AST) -> bool:
    match node:
        case ast.keyword(arg="task_acks_late"):
            return _is_true(node.value)
        case ast.Assign():
            return last_name(node.targets[0]).lower().endswith("acks_late") and _is_true(node.value)
        case ast.Dict():
            return any(
                isinstance(key, ast.Constant) and str(key.value).lower().endswith("acks_late") and _is_true(value)
                for key, value in zip(node.keys, node.values, strict=True)
            )
    return False
