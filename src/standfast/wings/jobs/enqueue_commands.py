"""Commands that store work: enqueue, http."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, get_args

import click

from standfast.application import Standfast
from standfast.cli.group import Command, ask, shared
from standfast.cli.parameters import duration, header, label, moment, payload_from
from standfast.cli.terminal import show_json, show_line
from standfast.doors.known_places import check_handler, queue_hint
from standfast.job import RISKS, Receipt
from standfast.printable import escaped
from standfast.rules import Coalesce
from standfast.wings.jobs.line_commands import enqueue_lines

OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--key",
        "--idempotency-key",
        "idempotency_key",
        help="Idempotency key: the same key and payload are stored once.",
    ),
    click.option("--thread-key", help="What this is about: jobs of a thread run one at a time, in order."),
    click.option(
        "--coalesce",
        type=click.Choice(get_args(Coalesce)),
        help="What happens if a job of its thread already waits, instead of the queue's rule.",
    ),
    click.option("--priority", type=int, help="Higher runs first."),
    click.option("--delay", type=duration, help="Start this much later."),
    click.option("--at", type=moment, help="Start at this time."),
    click.option("--expires", type=moment, help="Do not start after this time."),
    click.option("--attempts", type=int, help="How often to try, the first included."),
    click.option("--session", help="The session it belongs to."),
    click.option("--risk", type=click.Choice(RISKS), help="How much harm it could do."),
    click.option("--label", "labels", type=label, multiple=True, help="A label, name=value; may be repeated."),
)
"""The options of every job."""


def described(command: Command) -> Command:
    """Add the options of every job to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("queue", required=False)
@click.argument("payload", metavar="[JSON]", required=False)
@click.option("--handler", help="Which handler of the queue; by default the one with the queue's name.")
@click.option(
    "--jsonl",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="A file with a job on each line, as POST /jobs takes it; QUEUE is for lines that name none.",
)
@described
@shared
def enqueue(
    *, queue: str | None, payload: str | None, jsonl: str | None, url: str | None, as_json: bool, **options: Any
) -> None:
    """Store a job; it is on disk when its receipt is printed.

    JSON is the payload, `-` reads it from standard input. With --jsonl, store a job for each line of a file; a line
    that is refused is shown with its number, and the others are stored.
    """
    given = _given_options(options)
    if jsonl is not None:
        if payload is not None or given:
            raise click.UsageError("--jsonl takes payloads and options from the lines; give them there")
        enqueue_lines(jsonl, queue, url, as_json=as_json)
        return
    if queue is None:
        raise click.UsageError("Missing argument 'QUEUE'.")
    content = payload_from(payload)
    _hand_out(*ask(url, lambda sf: _enqueue(sf, queue, content, given)), as_json=as_json)


async def _enqueue(sf: Standfast, queue: str, content: Any, given: dict[str, Any]) -> tuple[Receipt, str | None]:
    await check_handler(sf, queue, given.get("handler"))
    return await sf.enqueue(queue, content, **given), await queue_hint(sf, queue)


@click.command()
@click.argument("queue")
@click.argument("method")
@click.argument("target", metavar="URL")
@click.argument("body", metavar="[JSON]", required=False)
@click.option("-H", "--header", "headers", type=header, multiple=True, help="A header, 'Name: value'; may be repeated.")
@click.option("--timeout", type=duration, help="How long the request may take.")
@described
@shared
def http(
    *,
    queue: str,
    method: str,
    target: str,
    body: str | None,
    headers: list[tuple[str, str]],
    url: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Store an HTTP request for a worker to send; it is on disk when its receipt is printed.

    JSON is the body, `-` reads it from standard input. An address that is not public must be among the queue's
    destinations. Without a --key, a POST or PATCH that may have arrived is not sent again.
    """
    given = {**_given_options(options), "headers": _once_each(headers), "body": payload_from(body)}
    _hand_out(ask(url, lambda sf: sf.enqueue_http(queue, method, target, **given)), None, as_json=as_json)


def _given_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given; the application decides the rest."""
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if "delay" in given and "at" in given:
        raise click.UsageError("--delay and --at both say when to start; give one of them")
    return {**given, "labels": dict(given["labels"])} if "labels" in given else given


def _once_each(headers: list[tuple[str, str]]) -> dict[str, str]:
    twice = [name for name, number in Counter(name.lower() for name, _ in headers).items() if number > 1]
    if twice:
        raise click.UsageError(f"header {twice[0]!r} is given twice; write one line with both values")
    return dict(headers)


def _hand_out(receipt: Receipt, hint: str | None, *, as_json: bool) -> None:
    if hint is not None:
        click.echo(f"standfast: {escaped(hint)}", err=True)
    if as_json:
        show_json(receipt._asdict())
    else:
        show_line(f"{receipt.id} {receipt.outcome} {receipt.state}")
