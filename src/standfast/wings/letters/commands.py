"""Commands about letters: dead list, dead show, dead replay, dead resolve."""

from __future__ import annotations

from typing import Any

import click

from standfast.application import Standfast
from standfast.cli.filter_options import filter_from, filter_options
from standfast.cli.group import DONE, REFUSED, look, look_into, shared
from standfast.cli.sheets import letter, show_page
from standfast.cli.terminal import show, show_json, show_line
from standfast.cli.words import now
from standfast.cli.worker_command import application, application_and
from standfast.spine.accept import user
from standfast.spine.payload import parse
from standfast.views import JobView
from standfast.wings.records.letter_query import WantedLetters

BACK = frozenset({"replayed", "resolved"})
"""The outcomes of a replay after which the letter is none any more."""


@click.group()
def dead() -> None:
    """List dead letters, the jobs that stopped and need a person, and put them back to work."""


@dead.command("list")
@filter_options(WantedLetters)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most.")
@click.option("--cursor", type=click.IntRange(min=1), help="Go on where the last page ended.")
@shared
def list_letters(*, limit: int, cursor: int | None, url: str | None, as_json: bool, **filters: Any) -> None:
    """List letters, newest first."""
    page = look(url, lambda sf: sf.dead_letters.list(filter_from(WantedLetters, filters), limit=limit, cursor=cursor))
    show_page(page, as_json=as_json, letters=True)


@dead.command("show")
@click.argument("job_id", metavar="ID")
@shared
def show_letter(*, job_id: str, url: str | None, as_json: bool) -> None:
    """Show a letter, whole: payload, failure, advice, triage and history."""
    found, approval = look(url, lambda sf: _with_approval(sf, job_id))
    if as_json:
        show_json(found)
    else:
        show(*letter(found, now(), approval))


async def _with_approval(sf: Standfast, job_id: str) -> tuple[JobView, str | None]:
    return await sf.dead_letters.get(job_id), await sf.approvals.of(job_id)


@dead.command()
@click.argument("names", metavar="[APP:SF] ID", nargs=-1, required=True)
@click.option("--reason", help="Why; it is kept with the replay.")
@shared
def replay(*, names: tuple[str, ...], reason: str | None, url: str | None, as_json: bool) -> None:
    """Put a letter back to work: the same job, id, key and payload. Exits 4 if the policy refuses.

    With APP:SF, the application that has the handler, its checks are asked now: a letter whose effects are all there is
    resolved at once. Without, it is replayed, and the worker asks them before it runs the handler.
    """
    app, [job_id] = application_and(names, ["ID"])
    sf = application(app, url)
    answer = look_into(sf, lambda sf: sf.dead_letters.replay(job_id, by=user(), reason=reason))
    if as_json:
        show_json({"id": job_id, **answer})
    else:
        show_line(_describe(job_id, **answer))
    raise click.exceptions.Exit(DONE if answer["outcome"] in BACK else REFUSED)


@dead.command()
@click.argument("names", metavar="[APP:SF] ID", nargs=-1, required=True)
@click.option("--reason", required=True, help="Why; it is kept with the job.")
@click.option("--result", metavar="JSON", help="Your word that it is done, with what came of it; nothing is looked at.")
@shared
def resolve(*, names: tuple[str, ...], reason: str, result: str | None, url: str | None, as_json: bool) -> None:
    """End a letter whose effect is there: its checks are asked, or --result is your word.

    APP:SF names the application that has the handler and its checks. Exits 1 if an effect is missing or cannot be told.
    """
    app, [job_id] = application_and(names, ["ID"])
    given = {} if result is None else {"result": parse(result, "--result")}
    sf = application(app, url)
    found = look_into(sf, lambda sf: sf.dead_letters.resolve(job_id, by=user(), reason=reason, **given))
    if as_json:
        show_json(found)
    else:
        show_line(f"{job_id} resolved")


def _describe(job_id: str, outcome: str, approval: str | None = None, rule: str = "", why: str = "") -> str:
    line = f"{job_id} {outcome}"
    if approval:
        line += f", waiting for {approval}"
    if outcome in BACK:
        return line
    return f"{line} by rule {rule or 'unnamed'}" + (f": {why}" if why else "")
