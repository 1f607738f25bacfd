"""A delivery from a shell script: ingest."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import click

from standfast.application import Standfast
from standfast.cli.group import DONE, FAILED, USAGE, ask, shared
from standfast.cli.parameters import header
from standfast.cli.terminal import show_json, show_line
from standfast.errors import ConfigurationError
from standfast.printable import escaped
from standfast.wings.ingest.sources import GITHUB, Source, by_hand, source
from standfast.wings.ingest.verbs import Answer, take

SERVER_ERROR = 500
CLIENT_ERROR = 400


@click.command()
@click.argument("name", metavar="SOURCE")
@click.argument("file", metavar="[FILE]", default="-")
@click.option("-H", "--header", "headers", type=header, multiple=True, help="A header, 'Name: value'; may be repeated.")
@click.option("--event", help="GitHub's name of the event, such as pull_request: the header X-GitHub-Event.")
@click.option("--delivery", help="The id of the delivery: the same one is stored once; else the hash of the body.")
@click.option("--unsigned", is_flag=True, help="Check no signature; you could enqueue the job anyway.")
@shared
def ingest(*, name: str, file: str, url: str | None, as_json: bool, **options: Any) -> None:
    """Accept a webhook's body from FILE or standard input, as the server would, and store its job.

    SOURCE is `github`, or a NAME of [ingest.NAME] in standfast.toml. Exits 0 also if the delivery is ignored.
    """
    raw = sys.stdin.buffer.read() if file == "-" else _contents(file)
    headers = [*options["headers"], *_implied_headers(name, raw, options["event"], options["delivery"])]

    async def question(sf: Standfast) -> Answer:
        return await take(sf, _source(sf, name, unsigned=options["unsigned"]), headers, raw)

    status, answer = ask(url, question)
    if as_json:
        show_json(answer)
    else:
        for each in answer.get("items", [answer]):
            _show(each)
    raise click.exceptions.Exit(FAILED if status >= SERVER_ERROR else USAGE if status >= CLIENT_ERROR else DONE)


def _contents(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {file}: {error.strerror}") from error


def _implied_headers(name: str, raw: bytes, event: str | None, delivery: str | None) -> list[tuple[str, str]]:
    """Return the headers that options stand for. A script that runs twice for the same body stores one job."""
    if name != GITHUB:
        return [("webhook-id", delivery)] if delivery else []
    if event is None:
        return [("X-GitHub-Delivery", delivery)] if delivery else []
    return [("X-GitHub-Event", event), ("X-GitHub-Delivery", delivery or hashlib.sha256(raw).hexdigest())]


def _source(sf: Standfast, name: str, *, unsigned: bool) -> Source:
    tables = sf.settings.ingest
    found = by_hand(name, tables) if unsigned else source(name, tables, os.environ)
    if found is None:
        known = ", ".join(tables) or "none"
        other = "; or add --unsigned" if name == GITHUB else ""
        raise ConfigurationError(f"there is no [ingest.{name}] in standfast.toml; there are {known}{other}")
    return found


def _show(answer: dict[str, Any]) -> None:
    if "outcome" not in answer:
        click.echo(f"standfast: {escaped(answer['detail'])}; {answer['hint']}", err=True)
    elif answer["outcome"] == "ignored":
        show_line(f"ignored: {escaped(answer['reason'])}")
    else:
        show_line(f"{answer['id']} {answer['outcome']} {answer['state']}")
