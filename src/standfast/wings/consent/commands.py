"""Commands about what sessions allow: consent list, consent grant, consent deny, consent revoke."""

from __future__ import annotations

from typing import Any

import click

from standfast.application import Standfast
from standfast.cli.group import look, shared
from standfast.cli.parameters import duration
from standfast.cli.terminal import Cell, Table, show, show_json, show_line
from standfast.cli.words import ago, count_of, now
from standfast.printable import escaped

GRANTS = ("session", "handler", "mode", "by", "until", "used", "why")
ASKS = ("job", "session", "handler", "asked")
NOBODY = "no session"


@click.group()
def consent() -> None:
    """See what sessions allow their handlers and which jobs wait for a yes; allow, deny, take back.

    SESSION is a session's name; '' is jobs without a session. HANDLER is queue/handler, a name that means one handler,
    or '*' for all.
    """


@consent.command("list")
@click.argument("session", required=False)
@shared
def list_consents(*, session: str | None, url: str | None, as_json: bool) -> None:
    """List what counts now, the newest first, and the jobs that wait for an answer: of one session, or of all."""

    async def listed(sf: Standfast) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        return await sf.consent.list(session or None), await sf.consent.asks(session or None)

    grants, asks = look(url, listed)
    if as_json:
        show_json({"items": grants, "asks": asks})
        return
    if grants:
        show(Table([_grant_row(each) for each in grants], GRANTS))
    else:
        show_line("nothing was granted or denied")
    if asks:
        show(Table([_ask_row(each) for each in asks], ASKS, "Waiting for an answer"))
        show_line("answer with: standfast consent grant SESSION HANDLER", "dim")


@consent.command()
@click.argument("session")
@click.argument("handler")
@click.option("--mode", type=click.Choice(["once", "timed", "always"]), default="once", show_default=True)
@click.option("--for", "seconds", type=duration, help="How long it counts, such as 10m.")
@click.option("--uses", type=click.IntRange(1), help="For how many jobs, with timed or always.")
@click.option("--reason", help="Why; it is kept in the audit.")
@shared
def grant(*, session: str, handler: str, url: str | None, as_json: bool, **given: Any) -> None:
    """Grant consent as the operating-system user; waiting jobs go on. Exits 2 if no such handler is declared."""
    _tell(look(url, lambda sf: sf.consent.grant(session or None, handler, **given)), as_json=as_json)


@consent.command()
@click.argument("session")
@click.argument("handler")
@click.option("--for", "seconds", type=duration, help="How long it counts, such as 10m.")
@click.option("--reason", help="Why; it is kept in the audit.")
@shared
def deny(*, session: str, handler: str, url: str | None, as_json: bool, **given: Any) -> None:
    """Deny consent, which overrides every grant; waiting jobs die. Exits 2 if no such handler is declared."""
    _tell(look(url, lambda sf: sf.consent.grant(session or None, handler, mode="deny", **given)), as_json=as_json)


@consent.command()
@click.argument("session")
@click.argument("handler", required=False)
@click.option("--reason", help="Why; it is kept in the audit.")
@shared
def revoke(*, session: str, handler: str | None, reason: str | None, url: str | None, as_json: bool) -> None:
    """Take back what a session was told about a handler, or all of it. What runs goes on."""
    number = look(url, lambda sf: sf.consent.revoke(session or None, handler, reason=reason))
    if as_json:
        show_json({"revoked": number})
    else:
        show_line(f"{count_of(number, 'answer')} of {session or NOBODY} taken back")


def _tell(given: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(given)
        return
    verdict = "denied" if given["mode"] == "deny" else f"granted ({given['mode']})"
    show_line(f"{given['handler']} is {verdict} to {given['session'] or NOBODY}, until {_until(given)}")
    if "warning" in given:
        click.echo(escaped(f"standfast: {given['warning']}"), err=True)


def _grant_row(each: dict[str, Any]) -> list[str | Cell]:
    style = "bold red" if each["mode"] == "deny" else "green"
    used = str(each["used"]) if each["uses"] is None else f"{each['used']} of {each['uses']}"
    cells = [each["session"] or NOBODY, each["handler"], Cell(each["mode"], style), each["by"]]
    return [*cells, _until(each), used, each["reason"] or ""]


def _ask_row(each: dict[str, Any]) -> list[str | Cell]:
    return [each["job_id"], each["session"] or NOBODY, each["handler"], ago(each["asked_at"], now())]


def _until(each: dict[str, Any]) -> str:
    return str(each["expires_at"].isoformat(timespec="minutes"))
