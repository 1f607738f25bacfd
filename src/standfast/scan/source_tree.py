"""The files of a scan: which exist, what their modules are called, and which cannot be read."""

from __future__ import annotations

import io
import os
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from standfast.errors import ConfigurationError
from standfast.scan.code_finding import Unreadable
from standfast.scan.parsed_module import ParsedModule

SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "env", "build", "dist"})
"""Directories without code of the project's own. Those that start with a dot are skipped, too."""


def python_files(paths: Sequence[Path], exclude: Sequence[str] = ()) -> list[tuple[Path, Path]]:
    """Return every file with the path it was found under; a file that you name is read whatever its suffix."""
    found: dict[Path, Path] = {}
    for root in paths:
        if not root.exists():
            raise ConfigurationError(f"there is no file or directory {str(root)!r} to scan")
        for path in _under(root) if root.is_dir() else [root]:
            if not _is_excluded(path, exclude):
                found.setdefault(path, root)
    if not found:
        raise ConfigurationError(f"there is no Python file in {', '.join(map(str, paths))}")
    return list(found.items())


def _under(root: Path) -> Iterator[Path]:
    for directory, inner, names in os.walk(root):
        inner[:] = sorted(name for name in inner if name not in SKIPPED and not name.startswith("."))
        yield from (Path(directory, name) for name in sorted(names) if name.endswith(".py"))


def _is_excluded(path: Path, patterns: Iterable[str]) -> bool:
    return any(fnmatch(path.as_posix(), pattern) or pattern in path.parts for pattern in patterns)


def read(path: Path, root: Path) -> tuple[ParsedModule, set[str]] | Unreadable:
    """Parse one file; return it with the names that other files may import it by."""
    try:
        source = _text(path.read_bytes())
        module = ParsedModule(path, shown_path(path), package_name(path), source)
    except SyntaxError as error:
        return Unreadable(shown_path(path), error.lineno or 1, f"{type(error).__name__}: {error.msg}")
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        problem = "its code is nested too deeply" if isinstance(error, RecursionError | MemoryError) else str(error)
        return Unreadable(shown_path(path), 1, problem)
    return module, {module.name, *_relative_names(path, root)}


def _text(raw: bytes) -> str:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    return io.TextIOWrapper(io.BytesIO(raw), encoding).read()


def shown_path(path: Path) -> str:
    """Return a path for people and editors: relative to the current directory, if it is below it."""
    absolute = path.absolute()
    here = Path.cwd()
    return (absolute.relative_to(here) if absolute.is_relative_to(here) else absolute).as_posix()


def package_name(path: Path) -> str:
    """Return the dotted name of a file, from the packages that contain it."""
    absolute = path.absolute()
    parts = [] if absolute.name == "__init__.py" else [absolute.stem]
    directory = absolute.parent
    while (directory / "__init__.py").exists() and directory != directory.parent:
        parts.insert(0, directory.name)
        directory = directory.parent
    return ".".join(parts) or absolute.parent.name


def _relative_names(path: Path, root: Path) -> Iterator[str]:
    """Yield the names by which a file outside of packages is imported."""
    for start in {root if root.is_dir() else root.parent, Path()}:
        if path.absolute().is_relative_to(start.absolute()):
            parts = path.absolute().relative_to(start.absolute()).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
