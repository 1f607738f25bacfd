"""All files of a scan together: what names mean, followed through modules, classes and imports of the tree.

A meaning is a full name. Calling something appends `()`: `client` in `client = httpx.Client()` means `httpx.Client()`,
and `client.post` means `httpx.Client().post`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator

from standfast.scan.known_names import same
from standfast.scan.parsed_module import (
    Assigned,
    Binding,
    Declared,
    Defined,
    Function,
    Imported,
    ParsedModule,
    Receiver,
    Scope,
)

DEEPEST = 40
"""How many steps a name is followed."""
CALLED = "()"


class Codebase:
    """Resolves the meaning of an expression."""

    def __init__(self, modules: Iterable[tuple[ParsedModule, Iterable[str]]]) -> None:
        self.modules: dict[str, ParsedModule] = {}
        self.parsed: list[ParsedModule] = []
        self.functions: defaultdict[str, list[Scope]] = defaultdict(list)
        self.methods: defaultdict[str, list[Scope]] = defaultdict(list)
        """Every function defined in a class, by its own name."""
        self.classes: dict[str, Scope] = {}
        self.attribute_reads: defaultdict[str, list[tuple[ParsedModule, ast.Attribute]]] = defaultdict(list)
        self.imported_names: set[str] = set()
        self._meanings: dict[tuple[ast.expr, Scope], str | None] = {}
        self._depth = 0
        for module, names in modules:
            self._add(module, names)

    def _add(self, module: ParsedModule, names: Iterable[str]) -> None:
        self.parsed.append(module)
        for name in names:
            self.modules.setdefault(name, module)
        for node, scope in module.scopes.items():
            if isinstance(node, Function):
                self.functions[scope.full_name].append(scope)
                if scope.parent is not None and isinstance(scope.parent.node, ast.ClassDef):
                    self.methods[scope.full_name.rpartition(".")[2]].append(scope)
            elif isinstance(node, ast.ClassDef):
                self.classes[scope.full_name] = scope
        for attribute in module.nodes(ast.Attribute):
            if isinstance(attribute.ctx, ast.Load):
                self.attribute_reads[attribute.attr].append((module, attribute))
        for line in module.nodes(ast.ImportFrom):
            self.imported_names.update(alias.name for alias in line.names)

    def meaning(self, node: ast.expr, scope: Scope) -> str | None:
        """Return the full name of what an expression is, or None if it cannot be followed."""
        key = (node, scope)
        if key in self._meanings:
            return self._meanings[key]
        if self._depth > DEEPEST:
            return None
        self._meanings[key] = None  # a name that leads back to itself has no meaning
        self._depth += 1
        try:
            found = self._follow(node, scope)
        finally:
            self._depth -= 1
        self._meanings[key] = found = None if found is None else same(found)
        return found

    def _follow(self, node: ast.expr, scope: Scope) -> str | None:
        match node:
            case ast.Name():
                return self._named(node.id, scope)
            case ast.Attribute():
                owner = self.meaning(node.value, scope)
                return None if owner is None else self._member(owner, node.attr)
            case ast.Call():
                return self._result(node, scope)
            case ast.Await(value=ast.Call() as call):
                return self._result(call, scope, awaited=True)
            case ast.NamedExpr():
                return self.meaning(node.value, scope)
            case ast.Lambda(body=ast.Call() as call):
                return self.meaning(call.func, scope.module.scopes.get(node, scope))
            case ast.IfExp():
                return self._only([self.meaning(node.body, scope), self.meaning(node.orelse, scope)])
            case ast.BoolOp():
                return self._only([self.meaning(value, scope) for value in node.values])
        return None

    def _named(self, name: str, scope: Scope) -> str | None:
        place: Scope | None = scope
        while place is not None:
            is_seen = place is scope or not isinstance(place.node, ast.ClassDef)
            if is_seen and name in place.bindings and name not in place.outer:
                return self._bound(place.bindings[name])
            place = place.parent
        return self._starred(name, scope.module) or f"builtins.{name}"

    def _starred(self, name: str, module: ParsedModule) -> str | None:
        for star in module.stars:
            source = self.modules.get(star)
            if source is not None and source is not module and name in source.scope.bindings:
                return self._bound(source.scope.bindings[name])
        return None

    def _bound(self, bindings: list[Binding]) -> str | None:
        return self._only([self._bound_by(binding) for binding in bindings])

    @staticmethod
    def _only(names: list[str | None]) -> str | None:
        known = {name for name in names if name is not None}
        return known.pop() if len(known) == 1 else None

    def _bound_by(self, binding: Binding) -> str | None:
        match binding:
            case Imported():
                return self.resolve(binding.name)
            case Defined() | Receiver():
                return binding.name
            case Assigned():
                return self.meaning(binding.value, binding.scope)
            case Declared():
                return self.instance(binding.annotation, binding.scope)
        return None

    def resolve(self, name: str) -> str | None:
        """Follow an imported name to its definition, if that is in the tree."""
        if self._depth > DEEPEST:
            return name
        if name in self.modules:
            return name
        owner, _, last = name.rpartition(".")
        if not owner:
            return name
        self._depth += 1
        try:
            found = self.resolve(owner)
            return name if found is None else self._member(found, last)
        finally:
            self._depth -= 1

    def _member(self, owner: str, name: str) -> str | None:
        module = self.modules.get(owner)
        if module is not None:
            return self._member_of_module(module, owner, name)
        kind = self.classes.get(owner.removesuffix(CALLED))
        if kind is not None:
            found = self._member_of_class(kind, name, set())
            return found or f"{owner}.{name}"
        return f"{owner}.{name}"

    def _member_of_module(self, module: ParsedModule, owner: str, name: str) -> str | None:
        if f"{owner}.{name}" in self.modules:
            return f"{owner}.{name}"
        if name in module.scope.bindings:
            return self._bound(module.scope.bindings[name])
        return self._starred(name, module) or f"{owner}.{name}"

    def _member_of_class(self, kind: Scope, name: str, seen: set[str]) -> str | None:
        seen.add(kind.full_name)
        bindings = [*kind.bindings.get(name, ()), *kind.attributes.get(name, ())]
        if bindings:
            return self._bound(bindings)
        for base in self.bases(kind):
            if base.full_name not in seen and (found := self._member_of_class(base, name, seen)):
                return found
        return None

    def bases(self, kind: Scope) -> Iterator[Scope]:
        """Yield the base classes that are in the tree."""
        for base in kind.node.bases if isinstance(kind.node, ast.ClassDef) else ():
            name = self.meaning(base, kind.parent or kind)
            if name in self.classes:
                yield self.classes[name]

    def _result(self, call: ast.Call, scope: Scope, *, awaited: bool = False) -> str | None:
        function = self.meaning(call.func, scope)
        if function is None:
            return None
        if function in {"functools.partial", "functools.partialmethod"} and call.args:
            return self.meaning(call.args[0], scope)
        if function in self.functions:
            return self._returned(self.functions[function], awaited=awaited)
        return f"{function}{CALLED}"

    def _returned(self, definitions: list[Scope], *, awaited: bool) -> str | None:
        found = []
        for definition in definitions:
            node = definition.node
            if isinstance(node, ast.AsyncFunctionDef) is not awaited or not isinstance(node, Function):
                return None
            found += [self._returned_by(node, definition)]
        return self._only(found)

    def _returned_by(self, node: Function, scope: Scope) -> str | None:
        if node.returns is not None:
            return self.instance(node.returns, scope)
        return self._only([self.meaning(each, scope) for each in returned_values(scope)])

    def instance(self, annotation: ast.expr, scope: Scope) -> str | None:
        """Return the meaning of a value with this annotation."""
        match annotation:
            case ast.Name() | ast.Attribute():
                name = self.meaning(annotation, scope)
                return None if name is None or name == "builtins.None" else f"{name}{CALLED}"
            case ast.Constant(value=str() as text):
                return self._quoted(text, scope)
            case ast.BinOp(op=ast.BitOr()):
                return self._only([self.instance(annotation.left, scope), self.instance(annotation.right, scope)])
            case ast.Subscript():
                return self._subscripted(annotation, scope)
        return None

    def _quoted(self, text: str, scope: Scope) -> str | None:
        try:
            return self.instance(ast.parse(text, mode="eval").body, scope)
        except SyntaxError:
            return None

    def _subscripted(self, annotation: ast.Subscript, scope: Scope) -> str | None:
        name = (self.meaning(annotation.value, scope) or "").rpartition(".")[2]
        inner = annotation.slice
        if name in {"Optional", "Annotated", "Final", "ClassVar", "AsyncIterator", "Iterator", "AsyncGenerator"}:
            return self.instance(inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner, scope)
        return self.instance(annotation.value, scope)

    def callee(self, call: ast.Call, module: ParsedModule) -> str | None:
        """Return the full name of the called function."""
        return self.meaning(call.func, module.scope_of(call))

    def definitions(self, function: ast.expr, module: ParsedModule) -> list[Scope]:
        """Return the functions of the tree that an expression may refer to."""
        name = self.meaning(function, module.scope_of(function))
        return [] if name is None else self.functions.get(name, [])


def returned_values(scope: Scope) -> Iterator[ast.expr]:
    """Yield the values that a function returns, in its own body."""
    for node in own_nodes(scope.node):
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Walk through a function, but not into functions and classes defined inside it."""
    stack: list[ast.AST] = list(ast.iter_child_nodes(node))
    while stack:
        each = stack.pop()
        yield each
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            stack.extend(ast.iter_child_nodes(each))
