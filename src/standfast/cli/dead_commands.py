"""Commands about letters: dead list, dead show, dead replay."""

from __future__ import annotations

from typing import Any

import click

from standfast.cli.door import DONE, REFUSED, look, shared
from standfast.cli.job_commands import now, show_page
from standfast.cli.parameters import duration
from standfast.cli.sheets import letter
from standfast.cli.terminal import show, show_json, show_line
from standfast.failure import Class, Landed
from standfast.lifecycle import REPLAY_STATUSES
from standfast.queue.accept import user

BACK = frozenset({"replayed", "resolved"})
"""The outcomes of a replay after which the letter is none any more."""


@click.group()
def dead() -> None:
    """Look at letters, what stopped and needs somebody, and put them back to work."""


@dead.command("list")
@click.option("--queue", help="Only of this queue.")
@click.option("--reason-code", help="Only those that stopped for this reason.")
@click.option("--class", "failure_class", type=click.Choice([str(it) for it in Class]), help="Can repeating help?")
@click.option("--landed", type=click.Choice([str(it) for it in Landed]), help="May the effect exist?")
@click.option("--replay-status", type=click.Choice(REPLAY_STATUSES), help="Only at this point of triage.")
@click.option("--older-than", type=duration, help="Only those that stopped at least this long ago.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most.")
@click.option("--cursor", type=click.IntRange(min=1), help="Go on where the last page ended.")
@shared
def list_letters(*, limit: int, cursor: int | None, url: str | None, as_json: bool, **filters: Any) -> None:
    """List letters, newest first."""
    filters["class"] = filters.pop("failure_class")
    wanted = {name: value for name, value in filters.items() if value is not None}
    page = look(url, lambda sf: sf.dead_letters.list(wanted, limit=limit, cursor=cursor))
    show_page(page, as_json=as_json)


@dead.command("show")
@click.argument("job_id", metavar="ID")
@shared
def show_letter(*, job_id: str, url: str | None, as_json: bool) -> None:
    """Show a letter, whole: payload, failure, advice, triage and history."""
    found = look(url, lambda sf: sf.dead_letters.get(job_id))
    if as_json:
        show_json(found)
    else:
        show(*letter(found, now()))


@dead.command()
@click.argument("job_id", metavar="ID")
@click.option("--reason", help="Why; it is kept with the replay.")
@shared
def replay(*, job_id: str, reason: str | None, url: str | None, as_json: bool) -> None:
    """Put a letter back to work: the same job, id, key and payload. Exits 4 if the policy refuses."""
    answer = look(url, lambda sf: sf.dead_letters.replay(job_id, by=user(), reason=reason))
    if as_json:
        show_json({"id": job_id, **answer})
    else:
        show_line(_told(job_id, **answer))
    raise click.exceptions.Exit(DONE if answer["outcome"] in BACK else REFUSED)


def _told(job_id: str, outcome: str, approval: str | None = None, rule: str = "", why: str = "") -> str:
    said = f"{job_id} {outcome}"
    if approval:
        said += f", waiting for {approval}"
    if outcome in BACK:
        return said
    return f"{said} by rule {rule or 'unnamed'}" + (f": {why}" if why else "")
