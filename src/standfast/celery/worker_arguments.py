"""The arguments of `celery worker` that `app.worker_main` understands."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

import click

from standfast.errors import ConfigurationError


class WorkerArguments(NamedTuple):
    """Which queues to serve, and how many jobs to run at once over all of them, as in Celery."""

    queues: list[str] | None
    concurrency: int | None


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("-Q", "--queues")
@click.option("-c", "--concurrency", type=click.IntRange(min=1))
@click.option("-l", "--loglevel", default="WARNING")
@click.option("-B", "--beat", is_flag=True)
@click.argument("rest", nargs=-1)
def _command(**_given: Any) -> None:
    """Define the options; this is parsed, and never run."""


def read(argv: Iterable[str] | None) -> WorkerArguments:
    """Read the arguments; refuse those without a counterpart, and name the replacement."""
    words = [word for word in argv or () if word != "worker"]
    try:
        given = _command.make_context("worker", words, resilient_parsing=False).params
    except click.ClickException as error:
        raise ConfigurationError(f"worker_main: {error.format_message()}") from error
    if given["rest"]:
        raise ConfigurationError(
            f"worker_main: {given['rest'][0]!r} of `celery worker` does not map to standfast; known are --queues, "
            "--concurrency, --loglevel and --beat (any worker keeps the beat schedule). See `standfast worker --help`"
        )
    logging.basicConfig(level=str(given["loglevel"]).upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    queues = None if given["queues"] is None else str(given["queues"]).split(",")
    return WorkerArguments(queues, given["concurrency"])
