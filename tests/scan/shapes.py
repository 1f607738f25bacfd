"""The corpus: one shape of code in each file or package, with a comment on every line that must be found."""

from __future__ import annotations

import re
from pathlib import Path

CORPUS = Path(__file__).with_name("corpus")
EXPECTED = re.compile(r"# expect: (\S+)")

SHAPES = sorted(path.name for path in CORPUS.iterdir() if not path.name.startswith("__pycache"))


def files(shape: Path) -> list[Path]:
    return sorted(shape.rglob("*.py")) if shape.is_dir() else [shape]


def expected(shape: Path) -> set[tuple[str, int, str]]:
    """Give file, line and rule of everything that a shape must be found for."""
    return {
        (path.name, number, found[1])
        for path in files(shape)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (found := EXPECTED.search(line))
    }
