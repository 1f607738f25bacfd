"""Write `sync.pyi`: what `sf.sync` makes of each awaited verb, taken from the table of verbs and the verbs themselves.

Run `python -m tests.typing.sync_stub > src/standfast/typed/sync.pyi` when a verb is new or has changed.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from standfast import Standfast
from standfast.doors.verbs import VERBS, Why
from standfast.spine.registry import Handler
from standfast.wings.redrives.verbs import Redrive
from standfast.wings.relay.outbox import Outbox
from standfast.wings.workflows.verbs import Workflow
from standfast.worker.worker import Worker

STUB = Path(__file__).parents[2] / "src" / "standfast" / "typed" / "sync.pyi"
OBJECTS: dict[str, type] = {
    "handler": Handler,
    "outbox": Outbox,
    "redrive": Redrive,
    "worker": Worker,
    "workflow": Workflow,
}
"""What verbs give that has verbs of its own, by its name in the table."""
RUFF = str(Path(sys.executable).with_name("ruff"))
ALSO = ("open", "close")
"""Parts of a Standfast that plain code needs too."""
ATTRIBUTES = {
    "handler": {"name": "str", "queue": "str"},
    "redrive": {"id": "str"},
    "worker": {"id": "str"},
    "workflow": {"name": "str"},
}
"""What such an object has beside verbs."""
ENTERED = frozenset({"", "outbox", "worker"})
"""What is entered with `with`; the Standfast itself has no name in the table."""
GIVES = {kind.__name__: f"Sync{kind.__name__}" for kind in OBJECTS.values()}
HEAD = '''"""What `sf.sync` looks like to editors and type checkers.

Do not edit it; `python -m tests.typing.sync_stub > src/standfast/typed/sync.pyi` writes it.
"""
'''
WAITS = frozenset({"AsyncIterator", "AbstractAsyncContextManager"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


def verbs() -> dict[str, list[str]]:
    """Give the names of the verbs by the object that has them; "" is the Standfast itself."""
    found: dict[str, list[str]] = defaultdict(list)
    for verb in VERBS:
        owner, _, name = verb.name.rpartition(".")
        if owner != "job" and (verb.route != Why.PART or verb.name in ALSO):
            found[owner].append(name)
    return found


@cache
def standfast() -> Standfast:
    return Standfast(":memory:")


def kind_of(owner: str) -> type:
    """Give the class that has the verbs of an owner."""
    if owner in OBJECTS:
        return OBJECTS[owner]
    found: Any = standfast()
    for name in filter(None, owner.split(".")):
        found = getattr(found, name)
    return type(found)


def stub_name(owner: str) -> str:
    return "Sync" if not owner else "Sync" + kind_of(owner).__name__


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(Path(inspect.getfile(sys.modules[module])).read_text(encoding="utf-8"))


def written(kind: type, name: str) -> tuple[str, list[Function]]:
    """Give the module that writes a method down, and how: once, or as overloads."""
    for each in kind.__mro__:
        if name in vars(each):
            [node] = [
                node
                for node in ast.walk(tree(each.__module__))
                if isinstance(node, ast.ClassDef) and node.name == each.__name__
            ]
            *overloads, way = [part for part in node.body if isinstance(part, Function) and part.name == name]
            if overloads:
                overloads[0].body = way.body[:1]  # its docstring
            return each.__module__, overloads or [way]
    raise LookupError(f"{kind.__name__} has no {name}")


def is_plain(ways: list[Function]) -> bool:
    """Tell whether a verb is neither awaited nor gives anything that has verbs to await."""
    [way] = ways[:1]
    named = {each.id for each in ast.walk(way.returns or ast.Constant(None)) if isinstance(each, ast.Name)}
    return isinstance(way, ast.FunctionDef) and named.isdisjoint({*GIVES, *WAITS})


class Names(ast.NodeTransformer):
    """Renames what is named in a signature, and remembers what is to be imported."""

    def __init__(self, owner: str, *, has_list: bool) -> None:
        self.owner = owner
        self.has_list = has_list
        self.imports: set[tuple[str, str]] = set()
        self.module = ""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Give what a name is here."""
        if node.id == "list" and self.has_list:
            self.imports.add(("", "builtins"))
            return ast.Attribute(ast.Name("builtins"), "list")
        if node.id == "Self":
            return ast.Name(stub_name(self.owner))
        if node.id == "AsyncIterator":
            self.imports.add(("collections.abc", "Iterator"))
            return ast.Name("Iterator")
        if node.id in ("T", "R"):
            self.imports.add(("standfast.typed.door", node.id))
        elif not hasattr(builtins, node.id):
            self.imports.add((origin(self.module, node.id), node.id))
        return node


def origin(module: str, name: str) -> str:
    """Give the module that a name comes from, where another uses it."""
    for node in tree(module).body:
        if isinstance(node, ast.ImportFrom) and name in {each.asname or each.name for each in node.names}:
            return node.module or ""
    return module


def signature(way: Function, names: Names) -> ast.FunctionDef:
    """Give a verb as plain code sees it."""
    arguments = names.visit(way.args)
    if arguments.args[0].annotation is not None:  # self: Handler[None, R]
        arguments.args[0].annotation = renamed(arguments.args[0].annotation)
    for defaults in (arguments.defaults, arguments.kw_defaults):
        defaults[:] = [
            each if each is None or isinstance(each, ast.Constant) else ast.Constant(...) for each in defaults
        ]
    entered = any("contextmanager" in ast.unparse(each) for each in way.decorator_list)
    returns = renamed(names.visit(way.returns)) if way.returns is not None else None
    if entered:
        names.imports.add(("contextlib", "AbstractContextManager"))
        returns = ast.parse("AbstractContextManager[None]", mode="eval").body
    overloaded = [each for each in way.decorator_list if ast.unparse(each) == "overload"]
    if overloaded:
        names.imports.add(("typing", "overload"))
    return ast.FunctionDef(way.name, arguments, body_of(way), overloaded, returns)


def renamed(annotation: ast.expr) -> ast.expr:
    """Name the plain form of what has verbs of its own."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            node.id = GIVES.get(node.id, node.id)
    return annotation


def body_of(way: Function) -> list[ast.stmt]:
    text = ast.get_docstring(way, clean=False)
    return [ast.Expr(ast.Constant(... if text is None else text))]


ENTER = """
def __enter__(self) -> Self: ...
def __exit__(
    self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
) -> None: ...
"""


def stub_class(owner: str, named: list[str]) -> tuple[ast.ClassDef, set[tuple[str, str]]]:
    """Give the class of an owner's plain calls, and what it needs."""
    kind, names = kind_of(owner), Names(owner, has_list="list" in named)
    body: list[ast.stmt] = []
    for name in named:
        names.module, ways = written(kind, name)
        if owner in OBJECTS or not is_plain(ways):
            body += [signature(way, names) for way in ways]
    for name, given in ATTRIBUTES.get(owner, {}).items():
        body += ast.parse(f"@property\ndef {name}(self) -> {given}: ...").body
    parts = [each for each in verbs() if each not in OBJECTS and each and each.rpartition(".")[0] == owner]
    for part in sorted(parts):
        body += ast.parse(f"@property\ndef {part.rpartition('.')[2]}(self) -> {stub_name(part)}: ...").body
    if owner in ENTERED:
        names.imports |= {("types", "TracebackType"), ("typing", "Self")}
        body += ast.parse(ENTER).body
    body += ast.parse("def __init__(self, target: Any) -> None: ...").body
    generic = owner == "handler"
    bases = ast.parse("Generic[T, R]", mode="eval").body if generic else None
    needed = {("typing", "Any"), *([("typing", "Generic")] if generic else [])} | names.imports
    text = f"The verbs of `{owner}` as plain calls." if owner else "Every awaited verb as a plain call."
    doc: ast.stmt = ast.Expr(ast.Constant(text))
    return ast.ClassDef(stub_name(owner), [bases] if bases else [], [], [doc, *body], []), needed - {
        (module, name) for module, name in names.imports if name in GIVES and name != "Handler"
    }


def stub() -> str:
    """Write the whole stub, in the project's format."""
    made = [stub_class(owner, named) for owner, named in verbs().items()]
    kept = [(each, needed) for each, needed in made if len(each.body) > 2]
    lines = [
        f"from {module} import {name}" if module else f"import {name}"
        for module, name in sorted(set().union(*(n for _, n in kept)))
    ]
    classes = [ast.unparse(ast.fix_missing_locations(each)) for each, _ in kept]
    return tidied("\n".join([HEAD, *lines, *classes]))


def tidied(text: str) -> str:
    name = ["--stdin-filename", str(STUB), "-"]
    for command in (["check", "--quiet", "--fix-only", "--select=I,F401"], ["format", "--quiet"]):
        text = subprocess.run([RUFF, *command, *name], input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    sys.stdout.write(stub())
