"""One object of the Python interface as Markdown: its signature, its docstring, and what each option or field means."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDEST = 96
MODULES = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])")
"""The modules before a type's name: readers know the type by its name alone."""
UNPACKED = re.compile(r"Unpack\[(\w+)\]")


def entry(name: str, thing: object) -> str:
    """Describe a function, or a class with its members."""
    if not isinstance(thing, type):
        return _function(f"## {name}", name, thing)
    parts = [f"## {name}", _docstring(thing), _fields(thing)]
    parts += [_member(f"### {member}", member, each) for member, each in _members(thing)]
    return "\n\n".join(filter(None, parts))


def _members(thing: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods and properties with a docstring, inherited ones included, in order."""
    seen: dict[str, object] = {}
    for owner in thing.__mro__:
        if owner.__module__.startswith("standfast"):
            seen |= {name: each for name, each in vars(owner).items() if name not in seen and _is_shown(name, each)}
    yield from seen.items()


def _is_shown(name: str, each: object) -> bool:
    described = inspect.isfunction(each) or isinstance(each, property | classmethod | staticmethod)
    return described and not name.startswith("_") and bool(getattr(each, "__doc__", None))


def _member(heading: str, name: str, each: object) -> str:
    if isinstance(each, property):
        return f"{heading}\n\n{_docstring(each)}"
    return _function(heading, name, getattr(each, "__func__", each))


def _function(heading: str, name: str, function: Any) -> str:
    given = inspect.signature(function)
    parameters = [each for each in given.parameters.values() if each.name not in {"self", "cls"}]
    shown = given.replace(parameters=parameters)
    start = "await " if inspect.iscoroutinefunction(function) else ""
    parts = [heading, f"```python\n{_written(start + name, shown)}\n```", _docstring(function)]
    return "\n\n".join(filter(None, (*parts, _options(function))))


def _written(name: str, signature: inspect.Signature) -> str:
    """Format a call on one line, or with one parameter per line if it is long."""
    whole = _without_modules(f"{name}{signature}")
    if len(whole) <= WIDEST:
        return whole
    result = "" if signature.return_annotation is signature.empty else f" -> {_named(signature.return_annotation)}"
    lines = "".join(f"    {_without_modules(line)},\n" for line in _lines(signature))
    return f"{name}(\n{lines}){result}"


def _lines(signature: inspect.Signature) -> Iterator[str]:
    """Yield each parameter, with the star before the first keyword-only one."""
    starred = False
    for each in signature.parameters.values():
        starred = starred or each.kind is each.VAR_POSITIONAL
        if each.kind is each.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        yield str(each)


def _named(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _without_modules(text)


def _without_modules(text: str) -> str:
    return MODULES.sub("", text).replace("'", '"')


def _docstring(thing: object) -> str:
    return inspect.getdoc(thing) or ""


def _options(function: Any) -> str:
    """Describe the options that a call takes as `**options: Unpack[…]`, one by one."""
    unpacked = (UNPACKED.search(str(each.annotation)) for each in inspect.signature(function).parameters.values())
    kinds = (function.__globals__.get(found[1]) for found in unpacked if found)
    return "\n\n".join(_fields(kind) for kind in kinds if isinstance(kind, type))


def _fields(kind: type) -> str:
    """Describe the fields of a class that have a sentence below them, as a table."""
    hints = _hints(kind)
    rows = [f"| `{name}` | `{_cell(hints.get(name, ''))}` | {said} |" for name, said in _described(kind).items()]
    return "\n".join(("| name | type | meaning |", "|---|---|---|", *rows)) if rows else ""


def _hints(kind: type) -> dict[str, Any]:
    try:
        return get_type_hints(kind)
    except (NameError, TypeError):
        return inspect.get_annotations(kind)


def _cell(annotation: object) -> str:
    return _named(annotation).replace("|", "\\|")


def _described(kind: type) -> dict[str, str]:
    """Return each public field of a class and its parents with the sentence below it."""
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        if owner.__module__.startswith("standfast"):
            found |= _sentences(owner)
    return found


def _sentences(kind: type) -> dict[str, str]:
    [body] = [node.body for node in ast.parse(textwrap.dedent(_source(kind))).body if isinstance(node, ast.ClassDef)]
    pairs = pairwise(body)
    return {name: said for name, said in (_sentence(*pair) for pair in pairs) if said and not name.startswith("_")}


def _source(kind: type) -> str:
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return "class Unread: ..."


def _sentence(field: ast.stmt, below: ast.stmt) -> tuple[str, str]:
    if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
        return "", ""
    if not isinstance(below, ast.Expr) or not isinstance(below.value, ast.Constant):
        return "", ""
    return field.target.id, " ".join(str(below.value.value).split()).replace("|", "\\|")
