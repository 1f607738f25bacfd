"""Names for what `scan --fix` adds to a file: names that the file does not use yet."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain, count
from typing import NamedTuple

import libcst as cst
from libcst import matchers
from libcst.metadata import GlobalScope, MetadataWrapper, ScopeProvider

from standfast.scan.codemod_helpers import HELPERS, Helper


class NamedHelper(NamedTuple):
    """A helper under the names that it gets in one file."""

    name: str
    source: str
    is_there: bool
    """Whether an earlier fix added it."""
    needs_logging_as: str | None
    """The name under which `logging` must be imported for it."""


def names_in(node: cst.CSTNode) -> set[str]:
    """Return every name in a piece of code, whatever it refers to."""
    return {each.value for each in matchers.findall(node, matchers.Name()) if isinstance(each, cst.Name)}


class HelperNames:
    """Chooses the names for one file."""

    def __init__(self, wrapper: MetadataWrapper) -> None:
        self._module = wrapper.module
        self._taken = names_in(wrapper.module)
        self._scope = next(scope for scope in wrapper.resolve(ScopeProvider).values() if isinstance(scope, GlobalScope))
        self._statements = {ast.dump(each) for each in ast.parse(wrapper.module.bytes).body}

    def of(self, name: str) -> NamedHelper:
        """Return a helper as it exists in the file, or under the first free names."""
        helper = HELPERS[name]
        logging = self._logging() if helper.logs else "logging"
        for suffix in _suffixes():
            names = {each: f"{each}{suffix}" for each in helper.defines} | {"logging": logging}
            is_there = self._has(helper, names)
            if is_there or self._taken.isdisjoint(names[each] for each in helper.defines):
                needed = logging if helper.logs and not self._is_logging(logging) else None
                return NamedHelper(names[name], helper.renamed(names), is_there, needed)
        raise AssertionError("there is always another number")

    def _has(self, helper: Helper, names: dict[str, str]) -> bool:
        """Return whether an earlier fix added a helper, and nothing else binds one of its names."""
        statements = {ast.dump(each) for each in ast.parse(helper.renamed(names)).body}
        return statements <= self._statements and all(len(self._scope[names[each]]) == 1 for each in helper.defines)

    def _logging(self) -> str:
        names = chain(["logging"], (f"_logging{suffix}" for suffix in _suffixes()))
        return next(name for name in names if name not in self._taken or self._is_logging(name))

    def _is_logging(self, name: str) -> bool:
        """Return whether a name is the standard library's `logging` throughout the module."""
        found = [getattr(each, "node", None) for each in self._scope[name]] if name in self._scope else []
        return bool(found) and all(node in self._imports_of_logging(name) for node in found)

    def _imports_of_logging(self, name: str) -> list[cst.CSTNode]:
        lines = (each for each in self._module.body if isinstance(each, cst.SimpleStatementLine))
        imports = (each for line in lines for each in line.body if isinstance(each, cst.Import))
        return [each for each in imports if any(_binds_logging(alias, name) for alias in each.names)]


def _binds_logging(alias: cst.ImportAlias, name: str) -> bool:
    if alias.evaluated_alias is not None:
        return alias.evaluated_name == "logging" and alias.evaluated_alias == name
    return alias.evaluated_name.partition(".")[0] == name == "logging"


def _suffixes() -> Iterator[str]:
    return chain([""], (f"_{number}" for number in count(2)))
