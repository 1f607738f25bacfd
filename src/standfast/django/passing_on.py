"""Management commands that pass their arguments on to standfast's own command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandParser

from standfast.cli.embedded import run_embedded
from standfast.django.backend import backend_named
from standfast.errors import ConfigurationError

USAGE = 2
"""The exit code of a command that is miswritten or misconfigured."""


class PassingOn(BaseCommand):
    """A command with the arguments of standfast's command line, plus Django's own two and `--backend`."""

    requires_system_checks: Sequence[str] = ()
    alias: str | None = None
    """The backend that `--backend` names."""

    def run_from_argv(self, argv: list[str]) -> None:
        """Run as `manage.py NAME …`."""
        djangos = CommandParser(add_help=False, allow_abbrev=False)
        djangos.add_argument("--settings")
        djangos.add_argument("--pythonpath")
        djangos.add_argument("--backend")
        known, rest = djangos.parse_known_args(argv[2:])
        self.alias = known.backend
        _let_children_import(argv[0])
        try:
            self.pass_on(rest, f"{Path(argv[0]).name} {argv[1]}")
        except (ImproperlyConfigured, ConfigurationError) as error:
            self.stderr.write(f"error: {error}")
            sys.exit(USAGE)

    def add_arguments(self, parser: CommandParser) -> None:
        """Accept any arguments, for `call_command`."""
        parser.add_argument("arguments", nargs="*")

    def handle(self, *arguments: str, **_options: Any) -> None:
        """Run from `call_command`."""
        self.pass_on(list(arguments or _options["arguments"]), "manage.py")

    def pass_on(self, arguments: list[str], name: str) -> None:
        """Run what this command stands for."""
        raise NotImplementedError

    def run_standfast(self, arguments: list[str], name: str) -> None:
        """Run standfast's command line on the backend's store; it ends this process."""
        run_embedded(f"standfast.django.project:{self.alias or 'sf'}", backend_named(self.alias).sf, arguments, name)


def _let_children_import(script: str) -> None:
    """Let child processes find the project's modules, wherever `manage.py` was started from."""
    here = str(Path(script).resolve().parent)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if here in sys.path and here not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([here, *paths])
