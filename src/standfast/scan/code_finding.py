"""What was found, and what could not be read."""

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
    """Both start at 1."""
    lost: str
    instead: str
    code: str
    """The source line, without its indentation."""
    scope: str
    """The function it stands in, as `Class.method`, or empty."""
    last_line: int
    """Where the statement ends: an ignore comment may stand there, too."""
    last_column: int
    """The column behind the end of an expression: calls that begin at one place are told apart by it."""

    @property
    def place(self) -> str:
        """`file:line:column`, as editors and terminals link it."""
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
    """How many findings an ignore comment answers for."""
    known: int = 0
    """How many findings the baseline has already."""
