"""Errors that are collected and never read: in gathers, waits, and futures of executors."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from standfast.scan.caught_errors import handle_own_errors, hands_over, only_waits
from standfast.scan.code_finding import Finding
from standfast.scan.codebase import CALLED, own_nodes
from standfast.scan.dangling_tasks import is_task_maker
from standfast.scan.file_view import FileView
from standfast.scan.known_names import CLEAN_UP, GATHER, POOLS, THREAD_BRIDGE, WAIT
from standfast.scan.lost_coroutines import is_submit
from standfast.scan.parsed_module import Assigned, Function, ParsedModule, Scope
from standfast.scan.scan_rules import DROPPED_FUTURE, UNREAD_GATHER, Rank, Rule
from standfast.scan.value_use import CALLED_BACK, FILLS, Fate, is_called_back, last_name


def find(view: FileView) -> Iterator[Finding]:
    """Look at every call that gathers results or returns a future."""
    for call in view.module.nodes(ast.Call):
        name = view.callee(call)
        if name in {GATHER, WAIT}:
            yield from _unread_gather(call, name, view)
        elif _gives_future(call, name, view):
            yield from _dropped_future(call, view)


def _unread_gather(call: ast.Call, name: str, view: FileView) -> Iterator[Finding]:
    if not _collects_errors(call, name, view) or not _is_result_dropped(call, view) or _is_clean_up(call, view):
        return
    if not _is_read_later(call, view) and not handle_own_errors(_written_out(call, view), view.codebase, view.module):
        lost = "asyncio.wait() raises nothing: the errors of these tasks are never read." if name == WAIT else ""
        yield view.finding(UNREAD_GATHER, call, lost)


def _written_out(call: ast.Call, view: FileView) -> Iterator[ast.expr]:
    """Yield the awaited expressions; for a list in a variable, the expression that made it."""
    for each in call.args:
        node = each.value if isinstance(each, ast.Starred) else each
        bindings = view.module.scope_of(node).bindings.get(node.id, []) if isinstance(node, ast.Name) else []
        made = [binding.value for binding in bindings if isinstance(binding, Assigned)]
        yield made[0] if len(made) == len(bindings) == 1 else node


def _collects_errors(call: ast.Call, name: str, view: FileView) -> bool:
    if name == WAIT:
        return bool(call.args) and _starts_tasks(call.args[0], view)
    given = [each.value for each in call.keywords if each.arg == "return_exceptions"]
    return any(isinstance(each, ast.Constant) and each.value is True for each in given)


def _starts_tasks(node: ast.expr, view: FileView) -> bool:
    """Return whether all awaited tasks are started here: code that waits for other code's tasks need not read them."""
    match node:
        case ast.List() | ast.Set() | ast.Tuple():
            return bool(node.elts) and all(_starts_tasks(each, view) for each in node.elts)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            return _starts_tasks(node.elt, view)
        case ast.Call():
            return is_task_maker(node, view.codebase, view.module) and not _only_waits(node.args[:1], view)
        case ast.Name():
            bindings = view.module.scope_of(node).bindings.get(node.id, [])
            return bool(bindings) and all(isinstance(each, Assigned) and _is_started(each, view) for each in bindings)
    return False


def _is_started(binding: Assigned, view: FileView) -> bool:
    return not isinstance(binding.value, ast.Name) and _starts_tasks(binding.value, view)


def _is_result_dropped(call: ast.Call, view: FileView) -> bool:
    parent = view.module.parents[call]
    if not isinstance(parent, ast.Await):
        return False
    return view.values.of(parent).fate is Fate.DROPPED or _is_only_counted(parent, view)


def _is_only_counted(awaited: ast.Await, view: FileView) -> bool:
    """Return whether the results go only to `len`: their number says nothing about errors."""
    statement = view.module.parents[awaited]
    scope = view.module.scope_of(awaited)
    if not isinstance(statement, ast.Assign) or isinstance(scope.node, ast.Module | ast.ClassDef):
        return False
    target = statement.targets[0]
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    given = [each.id for each in names if isinstance(each, ast.Name) and each.id not in scope.outer]
    reads = [read for name in given for read in scope.names_read(name)]
    return len(given) == len(names) and all(_is_count(view.module, each) for each in reads)


def _is_count(module: ParsedModule, name: ast.Name) -> bool:
    parent = module.parents[name]
    return isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "len"


def _is_clean_up(call: ast.Call, view: FileView) -> bool:
    """Return whether the call only waits for something that was cancelled or closed."""
    function = view.module.function_of(call)
    if function is None or view.cleans_up(call) or _is_in_finally(call, view):
        return True
    called = {last_name(each.func) for each in ast.walk(function) if isinstance(each, ast.Call)}
    inside = [each for arg in call.args for each in ast.walk(arg) if isinstance(each, ast.Call)]
    arguments = {last_name(each.func).lstrip("_") for each in inside}
    return bool(called & {"cancel", "throw"}) or bool(arguments & CLEAN_UP)


def _is_in_finally(call: ast.Call, view: FileView) -> bool:
    inner: ast.AST = call
    for each in view.module.ancestors(call):
        if isinstance(each, ast.Try) and inner in each.finalbody:
            return True
        inner = each
    return False


def _is_read_later(call: ast.Call, view: FileView) -> bool:
    """Return whether the tasks are examined one by one, after the gather or by the code that keeps them."""
    given = [each.value if isinstance(each, ast.Starred) else each for each in call.args]
    if any(_belong_to_others(each, view) or _all_have_callbacks(each, view) for each in given):
        return True
    names = {each.id for each in given if isinstance(each, ast.Name)}
    function = view.module.function_of(call)
    later = (node for node in ast.walk(function or view.module.tree) if isinstance(node, ast.Name))
    return any(node.id in names and node.lineno > (call.end_lineno or 0) for node in later)


def _all_have_callbacks(node: ast.expr, view: FileView) -> bool:
    """Return whether every task put into a list has a callback, which gets its error."""
    if not isinstance(node, ast.Name):
        return False
    uses = [view.module.parents[each] for each in view.module.scope_of(node).names_read(node.id)]
    fills = [view.module.parents[each] for each in uses if isinstance(each, ast.Attribute) and each.attr in FILLS]
    put_in = [each.args[-1] for each in fills if isinstance(each, ast.Call) and each.args]
    return bool(put_in) and all(_has_callbacks(each, view) for each in put_in)


def _has_callbacks(node: ast.expr, view: FileView) -> bool:
    """Return whether a task has a callback, or if a function of the tree makes it, whether that adds one."""
    if isinstance(node, ast.Name):
        return is_called_back(node, view.module)
    if not isinstance(node, ast.Call):
        return False
    makers = view.codebase.definitions(node.func, view.module)
    return bool(makers) and all(_gives_callbacks(each) for each in makers)


def _gives_callbacks(maker: Scope) -> bool:
    """Return whether a function adds a callback to each of its tasks."""
    called = [
        each.func.attr
        for each in own_nodes(maker.node)
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
    ]
    return CALLED_BACK in called and called.count(CALLED_BACK) >= called.count("create_task")


def _belong_to_others(node: ast.expr, view: FileView) -> bool:
    """Return whether these tasks are already kept elsewhere: code that only waits for them need not read them."""
    match node:
        case ast.Attribute():
            return True
        case ast.Call():
            inside = node.func.value if isinstance(node.func, ast.Attribute) else next(iter(node.args), None)
            is_copy = last_name(node.func) in {"values", "keys", "items", "copy", "list", "set", "tuple", "sorted"}
            return is_copy and inside is not None and _belong_to_others(inside, view)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            return _gives_what_it_takes(node) and _belong_to_others(node.generators[0].iter, view)
        case ast.Name():
            return _is_name_of_others(node, view)
    return False


def _gives_what_it_takes(node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> bool:
    """Return whether a comprehension only selects: its element is the loop variable, or a wrapper of it."""
    element = node.elt
    if isinstance(element, ast.Call) and last_name(element.func) in {"wrap_future", "shield"} and element.args:
        element = element.args[0]
    while isinstance(element, ast.Attribute):
        element = element.value
    names = {each.id for each in ast.walk(node.generators[0].target) if isinstance(each, ast.Name)}
    return isinstance(element, ast.Name) and element.id in names


def _is_name_of_others(name: ast.Name, view: FileView) -> bool:
    scope = view.module.scope_of(name)
    bindings = scope.bindings.get(name.id, [])
    if not bindings:
        return name.id in view.module.scope.bindings
    values = [each.value for each in bindings if isinstance(each, Assigned)]
    followed = [each for each in values if not isinstance(each, ast.Name)]
    return len(followed) == len(bindings) and all(_belong_to_others(each, view) for each in followed)


def _gives_future(call: ast.Call, name: str, view: FileView) -> bool:
    if name == THREAD_BRIDGE:
        return True
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "run_in_executor":
        return name not in view.codebase.functions
    if call.func.attr in {"apply_async", "map_async", "starmap_async"}:
        return name.rpartition(".")[0] in POOLS and not any(each.arg == "error_callback" for each in call.keywords)
    return is_submit(call, view)


def _dropped_future(call: ast.Call, view: FileView) -> Iterator[Finding]:
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "run_in_executor"
    function = call.args[1:2] if is_method else call.args[:1]
    if view.values.of(call).fate is not Fate.DROPPED or _has_callback(call, view):
        return
    if _only_waits(function, view) or view.cleans_up(call):
        return
    if not handle_own_errors(function, view.codebase, view.module) and not _is_clean_up_function(function):
        yield view.finding(_rule_for(function, view), call)


def _rule_for(functions: list[ast.expr], view: FileView) -> Rule:
    calls = [each for each in functions if isinstance(each, ast.Call)]
    if calls and all(_is_hand_over(each, view) for each in calls):
        return HANDED_OVER
    return DROPPED_FUTURE if _is_known(functions, view) else UNKNOWN_WORK


def _is_hand_over(call: ast.Call, view: FileView) -> bool:
    found = view.codebase.definitions(call.func, view.module)
    bodies = [(each.node.body, each.module) for each in found if isinstance(each.node, Function)]
    network = (view.io_calls.network(body, module, depth=1) for body, module in bodies)
    return hands_over(call, view.codebase, view.module) and not any(network)


HANDED_OVER = DROPPED_FUTURE._replace(
    rank=Rank.AT_RISK,
    lost="Nobody keeps this future. What it runs only hands something over in this process: an error there is lost.",
)
UNKNOWN_WORK = DROPPED_FUTURE._replace(
    rank=Rank.AT_RISK,
    lost="Nobody keeps this future. What it calls cannot be seen here: unless that catches its errors, they are lost.",
)


def _is_known(functions: list[ast.expr], view: FileView) -> bool:
    """Return whether the called functions can be followed: those that cannot may catch their own errors."""
    named = [each.func if isinstance(each, ast.Call) else each for each in functions]
    return all(isinstance(each, ast.Lambda) or _is_known_name(each, view) for each in named)


def _is_known_name(function: ast.expr, view: FileView) -> bool:
    """Return whether it names a function or a class; a value merely declared callable may be any function."""
    name = view.codebase.meaning(function, view.module.scope_of(function))
    return name is not None and not name.endswith(CALLED)


def _only_waits(functions: list[ast.expr], view: FileView) -> bool:
    calls = [each for each in functions if isinstance(each, ast.Call)]
    return any(only_waits(each, view.codebase, view.module) for each in calls)


def _has_callback(call: ast.Call, view: FileView) -> bool:
    """Return whether a callback sees the error: then the future itself need not be kept."""
    parent = view.module.parents[call]
    if isinstance(parent, ast.Attribute):
        return True
    if isinstance(parent, ast.Call):  # a function of the tree takes it, and handles it
        return view.callee(parent) in view.codebase.functions
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name):
        return False
    reads = view.module.scope_of(call).names_read(parent.targets[0].id)
    return any(isinstance(view.module.parents[each], ast.Attribute) for each in reads)


def _is_clean_up_function(functions: list[ast.expr]) -> bool:
    return any(last_name(each).lstrip("_") in CLEAN_UP for each in functions)
