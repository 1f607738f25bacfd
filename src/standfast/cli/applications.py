"""The application that a command line names as `module:attribute`, and the store that a command works on."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from standfast import settings
from standfast.cli.imported_module import import_module
from standfast.concurrency.guarded import call_guarded
from standfast.errors import ConfigurationError
from standfast.settings import Settings, without_password

if TYPE_CHECKING:
    from standfast.application import Standfast

OWN_ARGUMENT = "APP:SF"
"""Appears in the metavar of commands that take the application as an argument of their own."""
WITHOUT_STORE = frozenset({"promote", "bench", "demo", "scan"})
"""Commands that use no store, or stores of their own."""
OPERATION_ID = "standfast.operation_id"
"""Where a context keeps the id that `--operation-id` names."""
APPLICATION = "standfast.application"
"""Where a context keeps the application that the command line names."""
_FORM = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def opened(url: str | None) -> Standfast:
    """Return the application that the command line names, or one without handlers on the store at `url`."""
    return application(_named_application(), url)


def settings_for(url: str | None) -> Settings:
    """Return the settings of the application that the command line names, or those of this directory."""
    return settings.load(url, os.environ) if _named_application() is None else opened(url).settings


def _named_application() -> str | None:
    context = click.get_current_context(silent=True)
    found: str | None = None if context is None else context.meta.get(APPLICATION)
    return found


def take_application(context: click.Context, command: click.Command, args: Sequence[str]) -> list[str]:
    """Take `app:sf` from the front of a command's arguments, where it replaces `--url`; return the other arguments.

    A queue or a session may have a name of the same form. A word is taken as an application only if the command does
    not need it as an argument, and either has no room for it or a module of that name exists here.
    """
    name = _application_in(context, command, list(args))
    if name is None:
        return list(args)
    context.meta[APPLICATION] = name
    places = [place for place, word in enumerate(args) if word == name]
    rest = ([*args[:place], *args[place + 1 :]] for place in places)
    wanted = _words(context, command, list(args))[1:]
    return next(each for each in rest if _words(context, command, each) == wanted)


def _application_in(context: click.Context, command: click.Command, args: list[str]) -> str | None:
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    named = any(OWN_ARGUMENT in (each.metavar or "") for each in arguments)
    if named or command.name in WITHOUT_STORE or not any(each.name == "url" for each in command.params):
        return None
    words = _words(context, command, args)
    if not words or not _FORM.fullmatch(words[0]):
        return None
    least = sum(each.nargs for each in arguments if each.required and each.nargs > 0)
    most = sum(math.inf if each.nargs < 0 else each.nargs for each in arguments)
    if len(words) - 1 < least:
        return None
    return words[0] if len(words) > most or _is_module(words[0].partition(":")[0]) else None


def _words(context: click.Context, command: click.Command, args: list[str]) -> tuple[str, ...]:
    """Return the words that are neither options nor their values; none if the command line cannot be parsed."""
    options = [each for each in command.params if not isinstance(each, click.Argument)]
    all_words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    reader = click.Command(command.name, params=[*options, all_words])
    try:
        found: dict[str, Any] = reader.make_parser(click.Context(reader, parent=context)).parse_args(list(args))[0]
    except click.UsageError:  # the command itself reports the error better
        return ()
    words = found.get("words")
    return words if isinstance(words, tuple) else ()


def _is_module(name: str) -> bool:
    return PathFinder.find_spec(name.partition(".")[0], [str(Path.cwd()), *sys.path]) is not None


def application_and(names: Sequence[str], others: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Split an application that may come first from the other arguments, all of which are required."""
    app, given = (names[0], names[1:]) if names and ":" in names[0] else (None, names)
    named = click.get_current_context().meta.get(OPERATION_ID)
    given = given if named is None else (named, *given)
    if len(given) != len(others):
        wanted = " ".join(others)
        example = f"{click.get_current_context().command_path} {app or '[app:sf]'} {wanted}"
        raise click.UsageError(f"give {wanted}, and before it at most the application: {example}")
    return app, given


def application(app: str | None, url: str | None) -> Standfast:
    """Return the application named `module:attribute`, or one without handlers; it finds `url` in its environment."""
    from standfast.application import Standfast  # noqa: PLC0415 - help and probes need none of it

    if app is None:
        return Standfast(url)
    if url is not None:
        os.environ["STANDFAST_URL"] = url
    sf = _load(app, Standfast)
    if url is not None and sf.settings.url.value != url:
        raise ConfigurationError(
            f"{app} names its store itself ({without_password(sf.settings.url.value)}); "
            "leave --url out, or let the code name none"
        )
    return sf


def _load(app: str, kind: type[Standfast]) -> Standfast:
    module, _, attribute = app.partition(":")
    if not module or not attribute:
        example = call_guarded(lambda: _first_in(module, kind), lambda _error: "app:sf")
        raise ConfigurationError(f"{app!r} does not name an application; write module:attribute, such as {example}")
    loaded = import_module(module)
    if not hasattr(loaded, attribute):
        said = _meant(module, loaded, kind)
        raise ConfigurationError(f"{module} has no attribute {attribute!r}; name the Standfast object in it{said}")
    found = _standfast_of(getattr(loaded, attribute))
    if type(found).__module__.startswith("celery."):
        raise ConfigurationError(f"{app} is an app of Celery; change the import: from standfast.celery import Celery")
    if not isinstance(found, kind):
        said = _meant(module, loaded, kind)
        raise ConfigurationError(f"{app} is a {type(found).__name__}, not a Standfast; name the Standfast object{said}")
    return found


def _meant(module: str, loaded: object, kind: type[Standfast]) -> str:
    """List a module's applications, as the end of an error message."""
    there = _applications_in(module, loaded, kind)
    return f": {' or '.join(there)}" if there else ""


def _first_in(module: str, kind: type[Standfast]) -> str:
    """Return the application probably meant by a module name alone."""
    return next(iter(_applications_in(module, import_module(module), kind)), "app:sf")


def _applications_in(module: str, loaded: object, kind: type[Standfast]) -> list[str]:
    found = [f"{module}:{name}" for name, value in vars(loaded).items() if isinstance(_standfast_of(value), kind)]
    inside = f"{module}.celery"  # where `celery -A shop` looks, too
    folders = getattr(loaded, "__path__", None)
    if found or folders is None or PathFinder.find_spec(inside, folders) is None:
        return found
    return _applications_in(inside, import_module(inside), kind)


def _standfast_of(found: Any) -> Any:
    """Return the Standfast of an object that contains one, such as an app of `standfast.celery`."""
    give = getattr(type(found), "__standfast__", None)
    return found if give is None else give(found)
