"""Find which source files have changed, for `--reload`: by their modification times, with only the standard library."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages"})
"""Directories without source of the application; likewise virtual environments, and names that begin with a dot."""
SOURCES = (".py", ".toml", ".sql", ".yaml", ".yml")


class ChangedFiles:
    """The source files under a directory, as they were when last looked at."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen = self._look()

    def __call__(self) -> bool:
        """Return whether a file was added, removed or changed since the last look."""
        before, self._seen = self._seen, self._look()
        return self._seen != before

    def _look(self) -> dict[str, tuple[int, int]]:
        return {entry.path: (stat.st_mtime_ns, stat.st_size) for entry, stat in _sources(str(self._root))}


def _sources(directory: str) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    """Yield the source files; leave out those that vanish while this runs."""
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                if _is_source_directory(entry):
                    yield from _sources(entry.path)
            elif entry.name.endswith(SOURCES):
                yield entry, entry.stat()
        except OSError:
            continue


def _is_source_directory(entry: os.DirEntry[str]) -> bool:
    if entry.name in LEFT_OUT or entry.name.startswith("."):
        return False
    return not os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))  # noqa: PTH110, PTH118 - runs for every directory
