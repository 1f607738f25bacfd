"""Queues made of a file of JSON lines: one place appends, another reads the lines and empties the file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from standfast.scan.code_finding import Finding
from standfast.scan.codebase import Codebase
from standfast.scan.file_view import FileView
from standfast.scan.io_calls import opens_for
from standfast.scan.parsed_module import Imported, ParsedModule
from standfast.scan.scan_rules import LINE_QUEUE

REMOVES = frozenset({"unlink", "truncate", "write_text", "rename", "replace"})
REMOVERS = frozenset({"os.remove", "os.unlink", "os.rename", "os.replace", "os.truncate", "shutil.move"})


def find(view: FileView) -> Iterator[Finding]:
    """Match code that appends to a file with code that reads and empties it, in this file or another of the tree."""
    if "json" not in view.module.source:
        return
    for call in view.module.nodes(ast.Call):
        if _appends_json(call, view) and _file(call, view.module, view.codebase) in emptied_files(view.codebase):
            yield view.finding(LINE_QUEUE, call)


@lru_cache(maxsize=1)
def emptied_files(codebase: Codebase) -> frozenset[str]:
    """Return the files that are emptied by modules that read JSON."""
    readers = [each for each in codebase.parsed if "json" in each.source and _reads_json(each, codebase)]
    return frozenset(
        file for each in readers for call in each.nodes(ast.Call) for file in _emptied(call, each, codebase)
    )


def _reads_json(module: ParsedModule, codebase: Codebase) -> bool:
    return any(codebase.callee(call, module) == "json.loads" for call in module.nodes(ast.Call))


def _appends_json(call: ast.Call, view: FileView) -> bool:
    if not opens_for(call, view.callee(call), "a"):
        return False
    function = view.module.function_of(call)
    calls = [each for each in ast.walk(function) if isinstance(each, ast.Call)] if function else []
    return any(view.callee(each) in {"json.dumps", "json.dump"} for each in calls)


def _emptied(call: ast.Call, module: ParsedModule, codebase: Codebase) -> Iterator[str]:
    name = codebase.callee(call, module) or ""
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr in REMOVES and not _is_of_os(call.func)
    if name in REMOVERS or is_method or opens_for(call, name, "w"):
        yield _file(call, module, codebase)


def _file(call: ast.Call, module: ParsedModule, codebase: Codebase) -> str:
    """Return one name for the file that a call accesses, however it is spelled."""
    path = _path(call)
    match path:
        case ast.Constant(value=str() as text):
            return text
        case ast.Name() if path.id in module.scope.bindings and not _is_local(path, module):
            return _constant(path.id, module, codebase)
        case ast.Attribute():
            owner = codebase.modules.get(codebase.meaning(path.value, module.scope_of(path)) or "")
            if owner is not None:
                return _constant(path.attr, owner, codebase)
    return f"{module.name}: {ast.unparse(path) if path is not None else ''}"


def _is_local(name: ast.Name, module: ParsedModule) -> bool:
    scope = module.scope_of(name)
    return scope is not module.scope and name.id in scope.bindings


def _constant(name: str, module: ParsedModule, codebase: Codebase) -> str:
    """Return a canonical spelling for a module's name: that of the module it is imported from."""
    for binding in module.scope.bindings.get(name, ()):
        if isinstance(binding, Imported):
            owner, _, last = binding.name.rpartition(".")
            source = codebase.modules.get(owner)
            return f"{source.name}: {last}" if source is not None else binding.name
    return f"{module.name}: {name}"


def _path(call: ast.Call) -> ast.expr | None:
    """Return the expression for the file that a call accesses."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in {*REMOVES, "open"} and not _is_of_os(call.func):
        return call.func.value
    return call.args[0] if call.args else None


def _is_of_os(function: ast.Attribute) -> bool:
    return isinstance(function.value, ast.Name) and function.value.id in {"os", "shutil", "io"}
