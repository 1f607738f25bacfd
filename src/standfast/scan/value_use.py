"""What becomes of a value: dropped, kept, stored, or returned."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from standfast.scan.codebase import Codebase
from standfast.scan.known_names import CALLBACK_METHODS, CALLBACKS, LOOP, LOOP_NAME, PASSES_ON
from standfast.scan.parsed_module import Function, ParsedModule, Scope

WITHOUT_READING = frozenset({"add_done_callback", "remove_done_callback", "set_name", "get_name"})
"""Methods of a task that neither keep it nor wait for it."""
CALLED_BACK = "add_done_callback"
FILLS = frozenset({"add", "append", "appendleft", "extend", "insert"})
"""Methods that put something into a collection."""
EMPTIES = frozenset({"discard", "remove", "clear"})
LOG_METHODS = frozenset({"debug", "info", "warning", "warn", "error", "exception", "critical", "log", "trace"})


DEEPEST = 2


class Fate(Enum):
    """What becomes of a value."""

    DROPPED = "dropped"
    KEPT = "kept"
    RETURNED = "returned"
    STORED = "stored"


class Use(NamedTuple):
    """A fate, and where the value is stored: the attribute or the collection, and its file."""

    fate: Fate
    store: ast.expr | None = None
    module: ParsedModule | None = None


DROPPED, KEPT, RETURNED = Use(Fate.DROPPED), Use(Fate.KEPT), Use(Fate.RETURNED)


class ValueUse:
    """Follows values in one module."""

    def __init__(self, module: ParsedModule, codebase: Codebase, depth: int = 0) -> None:
        self.module = module
        self.codebase = codebase
        self.depth = depth
        """How many functions of the tree the value has been passed through."""

    def of(self, node: ast.expr) -> Use:
        """Return what becomes of the value of an expression."""
        parent = self.module.parents[node]
        match parent:
            case ast.Expr():
                return DROPPED
            case ast.IfExp() if parent.test is not node:
                return self.of(parent)
            case ast.BoolOp() | ast.NamedExpr():
                return self._named(parent.target) if isinstance(parent, ast.NamedExpr) else self._operand(parent, node)
            case ast.List() | ast.Set() | ast.Tuple() | ast.Starred():
                return self.of(parent)
            case ast.ListComp() | ast.SetComp() if parent.elt is node:
                return self.of(parent)
            case ast.Assign() | ast.AnnAssign():
                return self._assigned(parent.targets if isinstance(parent, ast.Assign) else [parent.target])
            case ast.Return():
                return RETURNED
            case ast.Call():
                return self._argument(parent, node)
            case ast.Attribute():
                return self._chained(parent)
            case ast.Compare() if _asks_for_none(parent):
                return DROPPED
            case ast.Lambda() if parent.body is node:
                return DROPPED if self._is_callback(parent) else KEPT
        return KEPT

    def _operand(self, operation: ast.BoolOp, node: ast.expr) -> Use:
        return self.of(operation) if operation.values[-1] is node else KEPT

    def _assigned(self, targets: list[ast.expr]) -> Use:
        if len(targets) != 1:
            return KEPT
        match targets[0]:
            case ast.Name() as name:
                return self._named(name)
            case ast.Attribute() as attribute:
                return Use(Fate.STORED, attribute, self.module)
            case ast.Subscript() as item:
                return self._put_into(item.value)
        return KEPT

    def _put_into(self, collection: ast.expr) -> Use:
        return Use(Fate.STORED, collection, self.module) if isinstance(collection, ast.Name | ast.Attribute) else KEPT

    def _argument(self, call: ast.Call, node: ast.expr) -> Use:
        if self.codebase.callee(call, self.module) in PASSES_ON:
            return self.of(call)
        if isinstance(call.func, ast.Attribute) and call.func.attr in FILLS and node in call.args:
            return self._put_into(call.func.value)
        return self._handed_over(call, node)

    def _handed_over(self, call: ast.Call, node: ast.expr) -> Use:
        """Follow a value into the function of the tree that it is passed to."""
        definitions = self.codebase.functions.get(self.codebase.callee(call, self.module) or "", [])
        if len(definitions) != 1 or node not in call.args or self.depth >= DEEPEST:
            return KEPT
        scope = definitions[0]
        name = _parameter(scope, call.args.index(node), call)
        reads = list(scope.names_read(name)) if name else []
        if not reads:
            return KEPT
        inner = ValueUse(scope.module, self.codebase, self.depth + 1)
        uses = [inner.read(each) for each in reads]
        return self._after_call(call, inner.best(uses), uses)

    def _after_call(self, call: ast.Call, best: Use, uses: list[Use]) -> Use:
        """Follow a function's return value back to its caller; the function may have stored it, too."""
        fates = {use.fate for use in uses}
        if Fate.KEPT in fates or Fate.RETURNED not in fates:
            return best
        stored = next((use for use in uses if use.fate is Fate.STORED), None)
        outside = self.of(call)
        return stored if stored is not None and outside.fate is Fate.DROPPED else outside

    def _chained(self, attribute: ast.Attribute) -> Use:
        call = self.module.parents[attribute]
        is_ignored = attribute.attr in WITHOUT_READING and isinstance(call, ast.Call) and call.func is attribute
        return DROPPED if is_ignored else KEPT

    def _is_callback(self, function: ast.expr) -> bool:
        call = self.module.parents[function]
        return isinstance(call, ast.Call) and callback_of(call, self.codebase, self.module) is function

    def _named(self, name: ast.Name) -> Use:
        scope = self.module.scope_of(name)
        if name.id in scope.outer or isinstance(scope.node, ast.ClassDef):
            return KEPT
        reads = list(scope.names_read(name.id))
        if not isinstance(scope.node, Function):
            return Use(Fate.STORED, name, self.module) if self.is_private(scope, name.id) else KEPT
        return self.best([self.read(each) for each in reads])

    def is_private(self, scope: Scope, name: str) -> bool:
        """Return whether no other module of the tree reads a module's name."""
        is_known_outside = name in self.codebase.imported_names or name in self.codebase.attribute_reads
        return isinstance(scope.node, ast.Module) and not is_known_outside

    @staticmethod
    def best(uses: list[Use]) -> Use:
        """Return the use that keeps the value best: one such use is enough."""
        if {Fate.RETURNED, Fate.STORED} <= {use.fate for use in uses}:
            return KEPT
        for fate in (Fate.KEPT, Fate.RETURNED, Fate.STORED):
            for use in uses:
                if use.fate is fate:
                    return use
        return DROPPED

    def read(self, name: ast.Name) -> Use:
        """Return what becomes of a value where its name is read."""
        parent = self.module.parents[name]
        if isinstance(parent, ast.Expr):
            return DROPPED
        if isinstance(parent, ast.Assign | ast.AnnAssign) and isinstance(self._target(parent), ast.Name):
            return KEPT
        return self.of(name)

    @staticmethod
    def _target(node: ast.Assign | ast.AnnAssign) -> ast.expr:
        return node.targets[0] if isinstance(node, ast.Assign) else node.target

    def is_ever_read(self, use: Use) -> bool:
        """Return whether a stored value is ever taken out again, anywhere in the tree."""
        if use.module is not None and use.module is not self.module:
            return ValueUse(use.module, self.codebase).is_ever_read(use)
        store = use.store
        if isinstance(store, ast.Attribute):
            return any(_takes_out(module, node) for module, node in self.codebase.attribute_reads[store.attr])
        if not isinstance(store, ast.Name):
            return True
        scope = self._owner(store)
        if scope is None or (isinstance(scope.node, ast.Module) and not self.is_private(scope, store.id)):
            return True
        return any(_takes_out(self.module, node) for node in scope.names_read(store.id))

    def _owner(self, name: ast.Name) -> Scope | None:
        scope: Scope | None = self.module.scope_of(name)
        while scope is not None and (name.id not in scope.bindings or name.id in scope.outer):
            scope = scope.parent
        return scope


def is_called_back(name: ast.Name, module: ParsedModule) -> bool:
    """Return whether the value of a name has a callback, which gets its error."""
    uses = [module.parents[each] for each in module.scope_of(name).names_read(name.id)]
    return any(isinstance(each, ast.Attribute) and each.attr == CALLED_BACK for each in uses)


def _asks_for_none(comparison: ast.Compare) -> bool:
    """Return whether a comparison only tests for None: that neither keeps nor reads the value."""
    is_none = isinstance(comparison.comparators[0], ast.Constant) and comparison.comparators[0].value is None
    return is_none and isinstance(comparison.ops[0], ast.Is | ast.IsNot)


def _parameter(scope: Scope, position: int, call: ast.Call) -> str | None:
    """Return the parameter that an argument fills."""
    node = scope.node
    if not isinstance(node, Function) or node.decorator_list or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    is_method = scope.parent is not None and isinstance(scope.parent.node, ast.ClassDef)
    names = names[1:] if is_method and isinstance(call.func, ast.Attribute) else names
    return names[position] if position < len(names) else None


def _takes_out(module: ParsedModule, node: ast.expr) -> bool:
    """Return whether reading a collection or task hands out its content."""
    parent = module.parents[node]
    if isinstance(parent, ast.Attribute):
        return parent.attr not in FILLS | EMPTIES | WITHOUT_READING
    if isinstance(parent, ast.Subscript):
        return not isinstance(parent.ctx, ast.Store | ast.Del)
    is_counted = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "len"
    return not is_counted


def callback_of(call: ast.Call, codebase: Codebase, module: ParsedModule) -> ast.expr | None:
    """Return the argument that this call will later call without awaiting it."""
    known = CALLBACKS.get(codebase.callee(call, module) or "")
    if known is not None:
        position, keyword = known
        named = (each.value for each in call.keywords if each.arg == keyword)
        return next(named, call.args[position] if len(call.args) > position else None)
    if isinstance(call.func, ast.Attribute) and _is_callback_method(call.func, codebase, module):
        position = CALLBACK_METHODS[call.func.attr]
        return call.args[position] if len(call.args) > position else None
    return None


def _is_callback_method(method: ast.Attribute, codebase: Codebase, module: ParsedModule) -> bool:
    """Return whether the method is that of an event loop or task: others with these names may well await."""
    if method.attr not in CALLBACK_METHODS:
        return False
    if method.attr in {"add_done_callback", "run_in_executor"}:
        return True
    owner = codebase.meaning(method.value, module.scope_of(method))
    return owner == LOOP or LOOP_NAME.search(last_name(method.value)) is not None


def last_name(node: ast.expr) -> str:
    """Return the last part of `loop`, `self.loop` or `get_loop()`."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.Call():
            return last_name(node.func)
    return ""


def is_logging(call: ast.Call, methods: Iterable[str] = LOG_METHODS) -> bool:
    """Return whether a call only writes a line for people."""
    if isinstance(call.func, ast.Name):
        return call.func.id == "print" and methods is LOG_METHODS
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in methods:
        return False
    return "log" in last_name(call.func.value).lower()
