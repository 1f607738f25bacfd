"""The files that `scan --fix` would change: their diffs, and how they are written."""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from standfast.errors import ConfigurationError
from standfast.scan.code_finding import Finding


class Change(NamedTuple):
    """One file, before and after."""

    path: Path
    before: bytes
    after: bytes
    fixed: list[Finding]

    def diff(self) -> Iterator[str]:
        """Yield the lines of a unified diff."""
        before, after = (_lines(text) for text in (self.before, self.after))
        name = self.path.as_posix()
        yield from difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", lineterm="")


def _lines(text: bytes) -> list[str]:
    return text.decode("utf-8", "replace").splitlines()


def plan(findings: list[Finding]) -> list[Change]:
    """Rewrite every file in memory."""
    try:
        from standfast.scan.codemod import rewrite  # noqa: PLC0415 - libcst is an extra, and slow to load
    except ModuleNotFoundError as error:
        raise ConfigurationError("--fix needs an extra: pip install 'standfast[codemod]'") from error
    changes = []
    for name, group in groupby(sorted(findings, key=lambda finding: finding.path), key=lambda finding: finding.path):
        before = Path(name).read_bytes()
        rewritten = rewrite(before, list(group))
        if rewritten.fixed:
            changes.append(Change(Path(name), before, rewritten.source, rewritten.fixed))
    return changes


def write(change: Change) -> None:
    """Replace a whole file, or nothing."""
    if change.path.read_bytes() != change.before:
        raise ConfigurationError(f"{change.path} was changed meanwhile; scan again")
    target = change.path.resolve()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(change.after)
        Path(name).chmod(target.stat().st_mode & 0o7777)
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)  # after success, it has been moved
