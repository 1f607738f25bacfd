"""The command that works: a worker in a process of its own."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from standfast.application import Standfast
from standfast.cli import logs
from standfast.cli.group import shared
from standfast.cli.parameters import duration, names
from standfast.errors import ConfigurationError
from standfast.settings import without_password
from standfast.worker.worker import GRACE, SLOTS


@click.command()
@click.argument("app", metavar="[APP:SF]", required=False)
@click.option("--queues", type=names, help="Only these queues; else every one that has a handler here.")
@click.option("--concurrency", type=click.IntRange(min=1), default=SLOTS, show_default=True, help="Slots per queue.")
@click.option("--grace", type=duration, default=GRACE, show_default=True, help="How long a drain lets attempts finish.")
@click.option("--suspects-of", type=int, hidden=True)
@click.option("--tell", type=int, hidden=True)
@shared
def worker(
    *,
    app: str | None,
    queues: list[str] | None,
    concurrency: int,
    grace: float,
    suspects_of: int | None,
    tell: int | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Run jobs until told to stop.

    SIGTERM or Ctrl-C drains: what runs is finished or given back, and the exit code is 0. A second one exits at once.

    A job whose worker died while it ran is run alone, in a process of its own. If it kills that too, it ends dead as
    worker_lost.

    APP:SF names the application: a module of the present directory, and the Standfast object in it. Without one only
    HTTP jobs are run; lost jobs are recovered, old ones expire, and what is not needed is pruned, all the same.
    """
    if tell is not None:
        # What the application starts has nothing to tell.
        os.set_inheritable(tell, False)  # noqa: FBT003 - it takes no keyword
    sf = application(app, url)
    logs.start(sf.settings.log.value, as_json=as_json)
    if suspects_of is not None:
        sf.run_suspects(queues, parent=suspects_of, grace=grace, tell=tell)
        return
    options = [*(["--json"] if as_json else []), *(["--queues", ",".join(queues)] if queues else [])]
    command = for_suspects(app, url, "--grace", str(grace), *options)
    sf.run_worker(queues, concurrency, grace=grace, suspects=command)


def for_suspects(app: str | None, url: str | None, *options: str) -> list[str]:
    """Give the command that runs jobs alone whose worker died: this one, in a process of its own.

    The store's address goes along in the environment: it may hold a password, and anybody can read a command line.
    """
    if url is not None:
        os.environ["STANDFAST_URL"] = url
    named = [app] if app is not None else []
    return [sys.executable, "-m", "standfast", "worker", *named, "--suspects-of", str(os.getpid()), *options]


def application_and(names: Sequence[str], others: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Tell the application that may stand first on a line from the others, which all must be there."""
    app, given = (names[0], names[1:]) if ":" in names[0] else (None, names)
    if len(given) != len(others):
        wanted = " ".join(others)
        example = f"{click.get_current_context().command_path} {app or '[app:sf]'} {wanted}"
        raise click.UsageError(f"give {wanted}, and before it at most the application: {example}")
    return app, given


def application(app: str | None, url: str | None) -> Standfast:
    """Give the application named `module:attribute`, or a bare one; `url` is what it finds in its environment."""
    if app is None:
        return Standfast(url)
    if url is not None:
        os.environ["STANDFAST_URL"] = url
    sf = _load(app)
    if url is not None and sf.settings.url.value != url:
        raise ConfigurationError(
            f"{app} names its store itself ({without_password(sf.settings.url.value)}); "
            "leave --url out, or let the code name none"
        )
    return sf


def _load(app: str) -> Standfast:
    module, _, attribute = app.partition(":")
    if not module or not attribute:
        raise ConfigurationError(f"{app!r} names no application; write module:attribute, such as app:sf")
    loaded = _import(module)
    if not hasattr(loaded, attribute):
        raise ConfigurationError(f"{module} has no attribute {attribute!r}; name the Standfast object in it")
    found = getattr(loaded, attribute)
    if not isinstance(found, Standfast):
        raise ConfigurationError(f"{app} is no Standfast but a {type(found).__name__}; name the object itself")
    return found


def _import(module: str) -> object:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the application's own import failed: its traceback says where
        raise ConfigurationError(f"there is no module {error.name!r} in {here} or installed") from error
