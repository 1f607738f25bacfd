"""What a scan found, and which files could not be read."""

from __future__ import annotations

import msgspec

from standfast.scan.scan_rules import Rank


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One place where work can be lost."""

    rule: str
    rank: Rank
    path: str
    line: int
    column: int
    """Line and column start at 1."""
    lost: str
    instead: str
    code: str
    """The source line, without its indentation."""
    scope: str
    """The enclosing function as `Class.method`, or empty."""
    last_line: int
    """The last line of the statement: an ignore comment may be there, too."""
    last_column: int
    """The column after the end of an expression: it distinguishes calls that begin at the same place."""

    @property
    def place(self) -> str:
        """`file:line:column`, the form that editors and terminals turn into links."""
        return f"{self.path}:{self.line}:{self.column}"


class Unreadable(msgspec.Struct, frozen=True):
    """A file that could not be parsed."""

    path: str
    line: int
    problem: str


class ScanResult(msgspec.Struct, frozen=True):
    """Everything that one scan found."""

    findings: list[Finding]
    unreadable: list[Unreadable]
    files: int
    lines: int
    ignored: int
    """How many findings are suppressed by ignore comments."""
    known: int = 0
    """How many findings are already in the baseline."""
