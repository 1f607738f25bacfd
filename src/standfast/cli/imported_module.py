"""The import of the application's module: an error is shown in one line, with its place in the user's code."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import click

from standfast.concurrency.guarded import call_guarded
from standfast.errors import ConfigurationError, StandfastError
from standfast.printable import escaped

NOT_THE_USERS = (
    "<",  # importlib is frozen into Python
    str(Path(__file__).parents[1]),
    *(sysconfig.get_paths()[each] for each in ("stdlib", "platstdlib", "purelib", "platlib")),
)
"""Prefixes of the file names of frames that are not the user's own code."""
DEBUG = "STANDFAST_LOG_LEVEL"
"""The setting that, with the value `debug`, shows the whole traceback."""


def import_module(name: str) -> ModuleType:
    """Import a module of this directory, or an installed one."""
    if name.startswith(".") or "/" in name:
        raise ConfigurationError(f"{name!r} is a path; write the name of a module{_nearest(name)}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return call_guarded(lambda: importlib.import_module(name), lambda error: _refuse(name, here, error))


def _refuse(module: str, here: str, error: Exception) -> NoReturn:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is not None and f"{module}.".startswith(f"{missing}."):
        raise ConfigurationError(f"there is no module {missing!r} in {here} or installed{_nearest(missing)}") from error
    raised = error.__cause__ or error if type(error) is RuntimeError else error
    if os.environ.get(DEBUG) == "debug":
        lines = "".join(traceback.format_exception(raised)).splitlines()
        click.echo("\n".join(escaped(line) for line in lines), err=True)
    place = _place(raised)
    if isinstance(error, StandfastError):
        error.add_note(f"raised at {place} while {module} was imported")
        raise error
    why = raised.msg if isinstance(raised, SyntaxError) else str(raised)
    kind = type(raised).__name__
    refused = ConfigurationError(f"cannot import {module}: {place}: {f'{kind}: {why}' if why else kind}")
    refused.add_note(f"set {DEBUG}=debug to see the traceback")
    raise refused from error


def _nearest(module: str) -> str:
    """Return a hint with the most likely module here: `ap`, `app.py` and `./app` all stand for `app`."""
    wanted = module.removesuffix(".py").strip("./").replace("/", ".")
    packages = wanted.split(".")[:-1]
    place = Path.cwd().joinpath(*packages)
    names = [each.stem for each in place.glob("*.py")] + [each.parent.name for each in place.glob("*/__init__.py")]
    close = difflib.get_close_matches(wanted, [".".join([*packages, name]) for name in names], n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _place(error: BaseException) -> str:
    """Return the file and line of the user's own code where the import failed."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{_short(error.filename)}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if not each.filename.startswith(NOT_THE_USERS)]
    last = (own or frames)[-1]
    return f"{_short(last.filename)}, line {last.lineno}"


def _short(file: str) -> str:
    here = Path.cwd()
    path = Path(file)
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
