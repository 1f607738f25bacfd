"""`flask standfast …`: standfast's command line, for the queue of this application."""

from __future__ import annotations

import os

import click
from flask.cli import ScriptInfo

from standfast.cli.embedded import run_embedded

APP = "standfast.flask.loaded:sf"


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Run jobs, and any other command of standfast.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def standfast(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Run a command of standfast: `flask standfast worker` runs the jobs of this application."""
    from standfast.flask import loaded  # noqa: PLC0415 - it imports this module's neighbours

    script = context.ensure_object(ScriptInfo)
    queue = loaded.remember(script.load_app())
    if script.app_import_path is not None:  # a child process loads the application by it
        os.environ["FLASK_APP"] = script.app_import_path
    run_embedded(APP, queue, list(arguments), "flask standfast")
