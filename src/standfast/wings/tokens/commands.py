"""Commands about tokens: token create, token list, token revoke."""

from __future__ import annotations

from typing import Any

import click

from standfast.cli.group import ask, look, shared
from standfast.cli.parameters import duration, names
from standfast.cli.terminal import Cell, Table, show, show_json, show_line
from standfast.wings.access.words import Role

COLUMNS = ("name", "role", "person", "groups", "queues", "sessions", "expires", "made by")


@click.group()
def token() -> None:
    """Create and revoke tokens for the server."""


@token.command()
@click.argument("name")
@click.option("--role", type=click.Choice([str(each) for each in Role]), required=True, help="What it may do.")
@click.option("--person", required=True, help="Who uses it; a person cannot approve what they asked for.")
@click.option("--group", "groups", multiple=True, help="A group whose approvals it may answer. Repeatable.")
@click.option("--queues", type=names, help="The only queues it reaches, such as mail,billing.")
@click.option("--sessions", type=names, help="The only sessions it works in, for an agent, such as agent:planner.")
@click.option("--expires", type=duration, help="How long it is valid, such as 30d.")
@shared
def create(
    *,
    name: str,
    role: str,
    person: str,
    groups: tuple[str, ...],
    queues: list[str] | None,
    sessions: list[str] | None,
    expires: float | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Create a token and print it. It is shown only once; the store keeps its hash."""
    scope: dict[str, Any] = {"groups": groups, "queues": queues, "sessions": sessions}
    made = ask(url, lambda sf: sf.tokens.create(name, person=person, role=role, expires=expires, **scope))
    if as_json:
        show_json(made)
    else:
        show_line(made["token"])


@token.command("list")
@shared
def list_tokens(*, url: str | None, as_json: bool) -> None:
    """List valid tokens, without their secrets."""
    found = look(url, lambda sf: sf.tokens.list())
    if as_json:
        show_json({"items": found})
    elif found:
        show(Table([_row(each) for each in found], COLUMNS))
    else:
        show_line("no tokens; make one with: standfast token create NAME --role viewer --person YOU")


@token.command()
@click.argument("name")
@shared
def revoke(*, name: str, url: str | None, as_json: bool) -> None:
    """Revoke a token, from now on."""
    look(url, lambda sf: sf.tokens.revoke(name))
    if as_json:
        show_json({"name": name, "revoked": True})
    else:
        show_line(f"{name} is revoked")


def _row(each: dict[str, Any]) -> list[Cell]:
    queues = "all" if each["queues"] is None else ", ".join(each["queues"])
    until = "never" if each["expires_at"] is None else each["expires_at"].isoformat(timespec="minutes")
    about = [each["name"], each["role"], each["person"], ", ".join(each["groups"]), queues, ", ".join(each["sessions"])]
    return [*about, until, each["created_by"]]
