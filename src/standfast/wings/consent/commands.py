"""Commands about what sessions allow: consent list, consent grant, consent deny, consent revoke."""

from __future__ import annotations

from typing import Any

import click

from standfast.application import Standfast
from standfast.cli.group import look, look_up, shared
from standfast.cli.parameters import duration, one_id, operation_id
from standfast.cli.terminal import Cell, Table, show, show_json, show_line
from standfast.cli.words import ago, now
from standfast.printable import escaped
from standfast.wings.records.figures import count_of

GRANTS = ("session", "handler", "mode", "by", "until", "used", "why")
ASKS = ("job", "session", "handler", "requested by", "risk", "asked")
NOBODY = "no session"


@click.group()
def consent() -> None:
    """Show which handlers sessions allow and which jobs wait for consent; grant, deny, revoke.

    SESSION is a session's name; '' is jobs without a session. HANDLER is queue/handler, a name that means one handler,
    or '*' for all.
    """


@consent.command("list")
@click.argument("session", required=False)
@shared
def list_consents(*, session: str | None, url: str | None, as_json: bool) -> None:
    """List the grants in force, newest first, and the jobs that wait for consent, of one session or of all."""

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
        show_line("see what one would do: standfast status JOB", "dim")
        show_line("answer with: standfast consent grant JOB, or deny JOB", "dim")


@consent.command()
@click.argument("session", metavar="JOB | SESSION", required=False, callback=one_id)
@click.argument("handler", required=False)
@click.option("--mode", type=click.Choice(["once", "timed", "always"]), default="once", show_default=True)
@click.option("--for", "seconds", type=duration, help="How long it is valid, such as 10m.")
@click.option("--uses", type=click.IntRange(1), help="For how many jobs, with timed or always.")
@click.option("--reason", help="Why; it is kept in the audit.")
@operation_id
@shared
def grant(*, session: str, handler: str | None, url: str | None, as_json: bool, **given: Any) -> None:
    """Grant consent as the operating-system user; waiting jobs continue. Exits 2 if no such handler is declared.

    With one argument, it names a job that waits: once is for this job alone, timed and always for its session and
    handler from now on. With two, a session and a handler.
    """
    if handler is None:
        if given.pop("uses") is not None:
            raise click.UsageError("--uses needs SESSION and HANDLER: a job is answered for itself, or for a time")
        _tell(look_up(url, session, lambda sf, id_: sf.consent.answer(id_, **given)), as_json=as_json)
        return
    _tell(look(url, lambda sf: sf.consent.grant(session or None, handler, **given)), as_json=as_json)


@consent.command()
@click.argument("session", metavar="JOB | SESSION", required=False, callback=one_id)
@click.argument("handler", required=False)
@click.option("--for", "seconds", type=duration, help="How long it is valid, such as 10m.")
@click.option("--reason", help="Why; it is kept in the audit.")
@operation_id
@shared
def deny(*, session: str, handler: str | None, url: str | None, as_json: bool, **given: Any) -> None:
    """Deny consent, which overrides every grant; waiting jobs die. Exits 2 if no such handler is declared.

    With one argument, it names a job that waits: that job dies, and no other. With two, a session and a handler.
    """
    if handler is None:
        if given.pop("seconds") is not None:
            raise click.UsageError("--for needs SESSION and HANDLER: the job itself ends for good")
        _tell(look_up(url, session, lambda sf, id_: sf.consent.answer(id_, mode="deny", **given)), as_json=as_json)
        return
    _tell(look(url, lambda sf: sf.consent.grant(session or None, handler, mode="deny", **given)), as_json=as_json)


@consent.command()
@click.argument("session")
@click.argument("handler", required=False)
@click.option("--reason", help="Why; it is kept in the audit.")
@shared
def revoke(*, session: str, handler: str | None, reason: str | None, url: str | None, as_json: bool) -> None:
    """Revoke a session's grants and denials for a handler, or all of them. Running jobs continue."""
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
    job = given.get("job_id") if given["mode"] in {"once", "deny"} else None
    whom = f"job {job}" if job else given["session"] or NOBODY
    until = "" if given["expires_at"] is None else f", until {_until(given)}"
    show_line(f"{given['handler']} is {verdict} to {whom}{until}")
    if "warning" in given:
        click.echo(escaped(f"standfast: {given['warning']}"), err=True)


def _grant_row(each: dict[str, Any]) -> list[str | Cell]:
    style = "bold red" if each["mode"] == "deny" else "green"
    used = str(each["used"]) if each["uses"] is None else f"{each['used']} of {each['uses']}"
    cells = [each["session"] or NOBODY, each["handler"], Cell(each["mode"], style), each["by"]]
    return [*cells, _until(each), used, each["reason"] or ""]


def _ask_row(each: dict[str, Any]) -> list[str | Cell]:
    who = [each["session"] or NOBODY, each["handler"], each["requester"] or "", each["risk"] or ""]
    return [each["job_id"], *who, ago(each["asked_at"], now())]


def _until(each: dict[str, Any]) -> str:
    return str(each["expires_at"].isoformat(timespec="minutes"))
