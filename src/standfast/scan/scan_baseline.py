"""The baseline: findings that are already known. A new scan shows only later ones.

A finding is recognised by its rule, file, function and line of code, never by its line number. If a function was
renamed or a file moved, the other parts are enough.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from standfast.errors import ConfigurationError
from standfast.scan.code_finding import Finding

VERSION = 1


class KnownFinding(msgspec.Struct, frozen=True, order=True):
    """The parts by which a finding is recognised. The path is relative to the baseline's own directory."""

    path: str
    rule: str
    scope: str
    code: str


class Baseline(msgspec.Struct):
    """The baseline file."""

    version: int
    findings: list[KnownFinding]


Likeness = Callable[[KnownFinding], tuple[str, ...]]
LIKENESSES: tuple[Likeness, ...] = (
    lambda known: (known.rule, known.path, known.scope, known.code),
    lambda known: (known.rule, known.path, known.code),
    lambda known: (known.rule, known.scope, known.code),
)
"""How two findings are compared: exactly first, then without the function, then without the file."""


def write(file: Path, findings: list[Finding]) -> None:
    """Make the given findings the known ones."""
    known = sorted(_known(finding, file) for finding in findings)
    content = msgspec.json.format(msgspec.json.encode(Baseline(VERSION, known)), indent=1)
    file.write_bytes(content + b"\n")


def new_since(file: Path, findings: list[Finding]) -> list[Finding]:
    """Return the findings that are not in the baseline."""
    pairs = [(finding, _known(finding, file)) for finding in findings]
    left = Counter(_load(file).findings)
    for likeness in LIKENESSES:
        pairs, left = _without_known(pairs, left, likeness)
    return [finding for finding, _ in pairs]


def _without_known(
    pairs: list[tuple[Finding, KnownFinding]], left: Counter[KnownFinding], likeness: Likeness
) -> tuple[list[tuple[Finding, KnownFinding]], Counter[KnownFinding]]:
    pool: dict[tuple[str, ...], list[KnownFinding]] = {}
    for known in left.elements():
        pool.setdefault(likeness(known), []).append(known)
    new = []
    for finding, known in pairs:
        alike = pool.get(likeness(known))
        if alike:
            left[alike.pop()] -= 1
        else:
            new.append((finding, known))
    return new, +left


def _known(finding: Finding, file: Path) -> KnownFinding:
    path = Path(os.path.relpath(finding.path, file.absolute().parent)).as_posix()
    return KnownFinding(path, finding.rule, finding.scope, " ".join(finding.code.split()))


def _load(file: Path) -> Baseline:
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Baseline)
    except FileNotFoundError as error:
        raise ConfigurationError(f"there is no baseline {str(file)!r}; write one with --write-baseline") from error
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the baseline {str(file)!r} cannot be read: {error}") from error
    if found.version != VERSION:
        raise ConfigurationError(f"the baseline {str(file)!r} has version {found.version}; write it again")
    return found
