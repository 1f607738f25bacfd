"""What a rule gets: one file, the code base around it, and a way to report a finding."""

from __future__ import annotations

import ast
import re

from standfast.scan.code_finding import Finding
from standfast.scan.codebase import Codebase
from standfast.scan.io_calls import IoCalls
from standfast.scan.parsed_module import Function, ParsedModule
from standfast.scan.scan_rules import Rule
from standfast.scan.value_use import ValueUse

AWAITED = re.compile(r"\bawait (\w+)\.(enqueue\w*\()")
"""An awaited method of standfast, or of a handler."""


class FileView:
    """One file, as the rules see it."""

    def __init__(self, module: ParsedModule, codebase: Codebase, io_calls: IoCalls) -> None:
        self.module = module
        self.codebase = codebase
        self.values = ValueUse(module, codebase)
        self.io_calls = io_calls

    def callee(self, call: ast.Call) -> str:
        """Return the full name of the called function, or an empty text."""
        return self.codebase.callee(call, self.module) or ""

    def finding(
        self, rule: Rule, node: ast.expr | ast.stmt | ast.ExceptHandler, lost: str = "", instead: str = ""
    ) -> Finding:
        """Make a finding: what was found, and where."""
        line = self._line(node.lineno)
        last_line, last_offset = _end(node)
        return Finding(
            rule=rule.id,
            rank=rule.rank,
            path=self.module.shown,
            line=node.lineno,
            column=_column(line, node.col_offset),
            lost=lost or rule.lost,
            instead=self._written(instead or rule.instead, node),
            code=line.strip(),
            scope=self.module.scope_of(node).name,
            last_line=last_line,
            last_column=_column(self._line(last_line), last_offset),
        )

    def _written(self, instead: str, node: ast.AST) -> str:
        """Adapt the advice to its place: where nothing can be awaited, it becomes a plain call."""
        inside = next((each for each in self.module.ancestors(node) if isinstance(each, Function | ast.Lambda)), None)
        return instead if isinstance(inside, ast.AsyncFunctionDef) else AWAITED.sub(r"\1.sync.\2", instead)

    def _line(self, number: int) -> str:
        return self.module.lines[number - 1] if number <= len(self.module.lines) else ""

    def cleans_up(self, node: ast.AST) -> bool:
        """Return whether a node is in a function that cleans up."""
        names = [each.name for each in self.module.ancestors(node) if isinstance(each, Function)]
        return any(part in name.lower() for name in names for part in CLEAN_UP_NAMES)


CLEAN_UP_NAMES = (
    *("close", "stop", "shutdown", "shut_down", "cancel", "exit__", "cleanup", "clean_up", "teardown", "tear_down"),
    *("disconnect", "__del__", "terminate", "dispose", "release", "kill", "abort", "finalize"),
)
"""Parts of the names of functions that clean up."""


def _end(node: ast.expr | ast.stmt | ast.ExceptHandler) -> tuple[int, int]:
    """Return the line and offset where an expression ends; for a statement, where it begins."""
    if isinstance(node, ast.expr) and node.end_lineno is not None and node.end_col_offset is not None:
        return node.end_lineno, node.end_col_offset
    return node.lineno, node.col_offset


def _column(line: str, offset: int) -> int:
    """Return a column that counts characters from 1; the parser counts bytes from 0."""
    return len(line.encode()[:offset].decode(errors="ignore")) + 1
