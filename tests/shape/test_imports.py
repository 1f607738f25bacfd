"""What is imported when: a program that starts often, a probe and a help text load no more than they need.

Times depend on the machine and on who else uses it; which modules are loaded does not.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

import standfast
from standfast.cli.main import main

FOR_HELP = 30
"""How many modules of standfast `standfast --help` may load; the whole has about five hundred."""
ALL_OF_IT = 400
"""How many `from standfast import Standfast` may load."""
SLOW = ("email", "tomllib", "sysconfig", "difflib", "importlib.resources", "zipfile", "click", "cronsim")
"""Modules that are slow to import and that a process which enqueues does not need."""
EXTRAS = ("psycopg", "starlette", "uvicorn", "jinja2", "mcp", "opentelemetry", "ruamel", "apprise", "httpx2", "rich")
DOORS = ("standfast.cli", "standfast.server", "standfast.dashboard", "standfast.mcp", "standfast.testing")


def loaded(*code: str) -> set[str]:
    """Give the modules that a fresh process has when it has run this."""
    program = "\n".join((*code, "import sys", "print(*sys.modules)"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50)
    return set(done.stdout.splitlines()[-1].split())


def below(modules: set[str], *packages: str) -> set[str]:
    return {
        each for each in modules if each.startswith(tuple(f"{package}." for package in packages)) or each in packages
    }


def test_import_standfast_loads_nothing_before_a_name_is_used():
    assert below(loaded("import standfast"), "standfast") == {"standfast"}


def test_the_application_loads_no_door_no_extra_and_nothing_slow_that_it_does_not_need():
    found = loaded("from standfast import Standfast")
    assert below(found, *DOORS, *EXTRAS, *SLOW) == set()
    assert len(below(found, "standfast")) <= ALL_OF_IT


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_and_version_load_no_application(arguments):
    code = ("from standfast.cli.main import main", f"main({arguments!r}, standalone_mode=False)")
    found = below(loaded(*code), "standfast")
    assert below(found, "standfast.application", "standfast.worker", "standfast.wings", "standfast.store") == set()
    assert len(found) <= FOR_HELP


EVERY_COMMAND = """
import sys
for name in {extras!r}:
    sys.modules[name] = None
import click
from standfast.cli.main import main
def walk(group):
    for command in group.commands.values():
        walk(command) if isinstance(command, click.Group) else command.get_help(click.Context(command))
walk(main)
"""


def test_every_command_shows_its_help_without_any_extra():
    """Whoever installs standfast alone has every command; one that needs an extra says so when it is run."""
    missing = (*EXTRAS, "fastapi", "libcst", "redis", "prometheus_client", "django", "flask")
    assert "standfast.cli.main" in loaded(EVERY_COMMAND.format(extras=missing))


def test_a_probe_opens_and_loads_no_store():
    code = ("import contextlib", "from standfast.cli.main import main", "with contextlib.suppress(SystemExit):")
    found = loaded(*code, "    main(['alive', '/nowhere'])")
    assert below(found, "standfast.application", "standfast.store", "standfast.wings") == set()
    assert below(found, "standfast.worker.alive_file") == {"standfast.worker.alive_file"}


FIRST = """
import os, sys
import apsw, asyncio, click, msgspec
for module in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            __import__(module)
        except BaseException as error:
            print(module, error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_whatever_is_imported_first_can_be():
    """A circle of imports shows only to who comes in at the wrong place; these are such places."""
    inside = ("worker.worker", "wings.schedules.ticker", "wings.workflows.verbs", "spine.run", "cli.worker_command")
    modules = [f"standfast.{each}" for each in (*inside, "cli.dead_group", "wings.jobs.commands", "testing")]
    done = subprocess.run(
        [sys.executable, "-c", FIRST, *modules], capture_output=True, text=True, check=True, timeout=50
    )
    assert done.stdout == ""


def test_what_help_says_of_a_command_is_what_the_command_says():
    for name, place in main.commands.places.items():  # type: ignore[attr-defined]
        command = main.commands[name]
        assert command.name == name
        assert place.says == _whole(command.help or ""), f"{name}: write its first sentence into cli/main.py"
        assert not command.hidden


def _whole(text: str) -> str:
    """Give the first sentence of a help, however long."""
    import click  # noqa: PLC0415 - not before the tests above have looked at fresh processes

    return click.Command("any", help=text).get_short_help_str(1000)


def test_every_public_name_is_found_and_none_else():
    assert {name: getattr(standfast, name).__name__ for name in ("Standfast", "Transient")} == {
        "Standfast": "Standfast",
        "Transient": "Transient",
    }
    assert sorted(standfast.__all__) == sorted(standfast._MODULES)  # noqa: SLF001 - the table must be whole
    assert dir(standfast) == standfast.__all__
    with pytest.raises(AttributeError, match="module 'standfast' has no attribute 'Standfats'"):
        _ = standfast.Standfats  # type: ignore[attr-defined]
