"""One parsed file: its scopes, what each name in them is bound to, and where names are read."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

Function = ast.FunctionDef | ast.AsyncFunctionDef
Node = TypeVar("Node", bound=ast.AST)


class Imported(NamedTuple):
    """Bound by an import, to something with this full name."""

    name: str


class Assigned(NamedTuple):
    """Bound to the value of an expression, or to what `with` binds when it enters it."""

    value: ast.expr
    scope: Scope


class Declared(NamedTuple):
    """Bound to something of this type."""

    annotation: ast.expr
    scope: Scope


class Defined(NamedTuple):
    """Bound by `def` or `class`; the name is the full one."""

    name: str


class Receiver(NamedTuple):
    """The first argument of a method: the instance, or its class."""

    name: str


class Opaque(NamedTuple):
    """Bound to something that is not followed: an argument, an element of a loop."""


Binding = Imported | Assigned | Declared | Defined | Receiver | Opaque


class Scope:
    """A module, class, function or lambda, and the names that are bound and read in it."""

    def __init__(self, node: ast.AST, parent: Scope | None, module: ParsedModule, name: str) -> None:
        self.node = node
        self.parent = parent
        self.module = module
        self.name = name
        """The path inside the module: `Class.method`; empty for the module itself."""
        self.bindings: defaultdict[str, list[Binding]] = defaultdict(list)
        self.attributes: defaultdict[str, list[Binding]] = defaultdict(list)
        """For a class: what its methods assign to attributes of `self`."""
        self.loads: defaultdict[str, list[ast.Name]] = defaultdict(list)
        self.outer: set[str] = set()
        """Names that are declared global or nonlocal."""
        self.inner: list[Scope] = []

    @property
    def full_name(self) -> str:
        """The name with its module."""
        return f"{self.module.name}.{self.name}" if self.name else self.module.name

    def names_read(self, name: str) -> Iterator[ast.Name]:
        """Yield every place where a name of this scope is read, in it or in scopes inside it."""
        yield from self.loads.get(name, ())
        for scope in self.inner:
            if name not in scope.bindings or name in scope.outer:
                yield from scope.names_read(name)


class ParsedModule:
    """A parsed file, with an index of what the rules ask for."""

    def __init__(self, path: Path, shown: str, name: str, source: str) -> None:
        self.path = path
        self.shown = shown
        self.name = name
        self.source = source
        self.lines = source.splitlines()
        self.is_package = path.name == "__init__.py"
        self.tree = ast.parse(source)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, Scope] = {}
        self.stars: list[str] = []
        self.by_kind: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        self.scope = Scope(self.tree, None, self, "")
        _Reader(self).read()

    def nodes(self, kind: type[Node]) -> list[Node]:
        """Return every node of one kind, in the order of the file."""
        return [node for node in self.by_kind.get(kind, ()) if isinstance(node, kind)]

    def scope_of(self, node: ast.AST) -> Scope:
        """Return the innermost scope that contains a node."""
        while node not in self.scopes:
            node = self.parents[node]
        return self.scopes[node]

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes that contain a node, the innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def function_of(self, node: ast.AST) -> Function | None:
        """Return the innermost function that contains a node."""
        return next((each for each in self.ancestors(node) if isinstance(each, Function)), None)


INDEXED = frozenset(
    {ast.Call, ast.Try, ast.With, ast.AsyncWith, ast.Attribute, ast.ImportFrom, ast.Assign, ast.FunctionDef}
    | {ast.AsyncFunctionDef, ast.Constant}
)

"""The nodes that the rules ask for."""
BINDING = frozenset(
    {ast.Name, ast.Attribute, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.Import}
    | {ast.ImportFrom, ast.Global, ast.Nonlocal}
)
"""The nodes that bind names, read them, or open a scope."""


class _Reader:
    """Walks a tree once, with a stack of its own: a tree may be deeper than Python's recursion limit."""

    def __init__(self, module: ParsedModule) -> None:
        self.module = module

    def read(self) -> None:
        module = self.module
        module.scopes[module.tree] = module.scope
        stack: list[tuple[ast.AST, Scope]] = [(module.tree, module.scope)]
        while stack:
            node, scope = stack.pop()
            kind = type(node)
            if kind in INDEXED:
                module.by_kind[kind].append(node)
            inner = self._enter(node, scope) if kind in BINDING else scope
            for child in reversed(list(ast.iter_child_nodes(node))):
                module.parents[child] = node
                stack.append((child, inner))

    def _enter(self, node: ast.AST, scope: Scope) -> Scope:
        """Record what a node binds or reads, and return the scope of its children."""
        match node:
            case ast.Name():
                return self._name(node, scope)
            case ast.Attribute():
                return self._attribute(node, scope)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return self._definition(node, scope)
            case ast.Lambda():
                return self._function_without_name(node, scope)
            case ast.Import():
                return self._whole_import(node, scope)
            case ast.ImportFrom():
                return self._import_from(node, scope)
            case ast.Global() | ast.Nonlocal():
                return self._outer_names(node, scope)
        return scope

    def _open(self, node: ast.AST, scope: Scope, name: str) -> Scope:
        inner = Scope(node, scope, self.module, f"{scope.name}.{name}" if scope.name else name)
        scope.inner.append(inner)
        self.module.scopes[node] = inner
        return inner

    def _definition(self, node: Function | ast.ClassDef, scope: Scope) -> Scope:
        inner = self._open(node, scope, node.name)
        scope.bindings[node.name].append(Defined(inner.full_name))
        if not isinstance(node, ast.ClassDef):
            self._bind_arguments(node, inner)
        return inner

    def _function_without_name(self, node: ast.Lambda, scope: Scope) -> Scope:
        inner = self._open(node, scope, "<lambda>")
        self._bind_arguments(node, inner)
        return inner

    def _bind_arguments(self, node: Function | ast.Lambda, inner: Scope) -> None:
        arguments = node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            declared = Declared(argument.annotation, inner) if argument.annotation else Opaque()
            inner.bindings[argument.arg].append(declared)
        for rest in filter(None, (arguments.vararg, arguments.kwarg)):
            inner.bindings[rest.arg].append(Opaque())
        self._bind_receiver(node, inner)

    @staticmethod
    def _bind_receiver(node: Function | ast.Lambda, inner: Scope) -> None:
        parent = inner.parent
        first = next(iter((*node.args.posonlyargs, *node.args.args)), None)
        if isinstance(node, ast.Lambda) or parent is None or not isinstance(parent.node, ast.ClassDef) or not first:
            return
        decorators = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
        if "staticmethod" not in decorators:
            receiver = parent.full_name if "classmethod" in decorators else f"{parent.full_name}()"
            inner.bindings[first.arg] = [Receiver(receiver)]

    def _name(self, node: ast.Name, scope: Scope) -> Scope:
        if isinstance(node.ctx, ast.Load):
            scope.loads[node.id].append(node)
        elif isinstance(node.ctx, ast.Store):
            self._bind(node, scope)
        return scope

    def _bind(self, target: ast.Name, scope: Scope) -> None:
        parent = self.module.parents[target]
        value = _value_given(parent, target)
        if isinstance(parent, ast.AnnAssign):
            scope.bindings[target.id].append(Declared(parent.annotation, scope))
        elif value is not None:
            scope.bindings[target.id].append(Assigned(value, scope))
        elif not isinstance(parent, ast.AugAssign):
            scope.bindings[target.id].append(Opaque())

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Scope:
        if not isinstance(node.ctx, ast.Store) or not isinstance(node.value, ast.Name):
            return scope
        receiver = scope.bindings.get(node.value.id, [None])[0]
        if isinstance(receiver, Receiver) and scope.parent is not None:
            self._bind_attribute(node, scope, scope.parent)
        return scope

    def _bind_attribute(self, node: ast.Attribute, scope: Scope, owner: Scope) -> None:
        parent = self.module.parents[node]
        value = _value_given(parent, node)
        if isinstance(parent, ast.AnnAssign):
            owner.attributes[node.attr].append(Declared(parent.annotation, scope))
        elif value is not None:
            owner.attributes[node.attr].append(Assigned(value, scope))
        else:
            owner.attributes[node.attr].append(Opaque())

    def _whole_import(self, node: ast.Import, scope: Scope) -> Scope:
        for alias in node.names:
            top = alias.name.partition(".")[0]
            scope.bindings[alias.asname or top].append(Imported(alias.name if alias.asname else top))
        return scope

    def _import_from(self, node: ast.ImportFrom, scope: Scope) -> Scope:
        source = self._absolute(node)
        for alias in node.names:
            if alias.name == "*":
                self.module.stars.append(source)
            else:
                scope.bindings[alias.asname or alias.name].append(Imported(f"{source}.{alias.name}"))
        return scope

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.module.name.split(".")
        above = parts[: len(parts) - node.level + (1 if self.module.is_package else 0)]
        return ".".join([*above, *filter(None, [node.module])])

    def _outer_names(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> Scope:
        scope.outer.update(node.names)
        return scope


def _value_given(parent: ast.AST, target: ast.expr) -> ast.expr | None:
    """Return the expression that a target is bound to, if it is bound to all of it."""
    if isinstance(parent, ast.Assign) and target in parent.targets:
        return parent.value
    if isinstance(parent, ast.NamedExpr):
        return parent.value
    if isinstance(parent, ast.withitem) and parent.optional_vars is target:
        return parent.context_expr
    return None
