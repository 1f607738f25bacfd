"""The installed version of standfast."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

import click


def version() -> str:
    """Return the installed version, if there is one."""
    try:
        return installed("standfast")
    except PackageNotFoundError:
        return "from source, not installed"


def tell(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's own signature
    """Print the version and exit, if asked."""
    if wanted:
        click.echo(f"standfast, version {version()}")
        ctx.exit()


with_version = click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=tell, help="Show the version and exit."
)
