"""Commands about letters: dead list, dead show, dead replay, dead resolve."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from standfast.application import Standfast
from standfast.cli.applications import application, application_and
from standfast.cli.filter_options import filter_from, filter_options
from standfast.cli.group import DONE, FAILED, REFUSED, about, look, look_into, look_up, shared, store_words
from standfast.cli.parameters import job_id, operation_id
from standfast.cli.sheets import letter, show_page
from standfast.cli.terminal import show, show_json, show_line
from standfast.cli.words import now
from standfast.spine.accept import user
from standfast.spine.payload import parse
from standfast.views import JobView
from standfast.wings.records.letter_filter import as_filter
from standfast.wings.records.letter_query import WantedLetters

BACK = frozenset({"replayed", "resolved"})
"""The outcomes of a replay after which the letter is none any more."""


@click.group()
def dead() -> None:
    """List dead letters, the jobs that stopped and need a person, and put them back to work."""


@dead.command("list")
@filter_options(WantedLetters)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most.")
@click.option("--cursor", type=click.IntRange(min=1), help="Continue where the last page ended.")
@shared
def list_letters(*, limit: int, cursor: int | None, url: str | None, as_json: bool, **filters: Any) -> None:
    """List letters, newest first."""
    page = look(
        url, lambda sf: sf.dead_letters.list(as_filter(filter_from(WantedLetters, filters)), limit=limit, cursor=cursor)
    )
    show_page(page, as_json=as_json, letters=True)


@dead.command("show")
@job_id
@shared
def show_letter(*, job_id: str, url: str | None, as_json: bool) -> None:
    """Show everything about a letter: payload, failure, advice, triage and history."""
    found, approval = look_up(url, job_id, _with_approval)
    if as_json:
        show_json(found)
    else:
        show(*letter(found, now(), approval))


async def _with_approval(sf: Standfast, job_id: str) -> tuple[JobView, str | None]:
    return await sf.dead_letters.get(job_id), await sf.approvals.of(job_id)


@dead.command()
@click.argument("names", metavar="[APP:SF] ID", nargs=-1)
@operation_id
@click.option("--reason", help="Why; it is kept with the replay.")
@shared
def replay(*, names: tuple[str, ...], reason: str | None, url: str | None, as_json: bool) -> None:
    """Put a letter back to work: the same job, id, key and payload. Exits 4 if the policy refuses.

    One that waits for consent is not replayed, and this exits 1: answer it with `standfast consent grant ID`.

    With APP:SF, the application that has the handler, its checks are asked now: a letter whose effects are all there is
    resolved at once. Without, it is replayed, and the worker asks them before it runs the handler.
    """
    app, [job_id] = application_and(names, ["ID"])
    sf = application(app, url)
    job_id, answer = look_into(sf, lambda sf: about(sf, job_id, partial(_replayed, reason=reason)))
    if as_json:
        show_json({"id": job_id, **answer})
    else:
        show_line(_describe(job_id, store_words(app), **answer))
    unanswered = {"consent_required": FAILED}
    raise click.exceptions.Exit(DONE if answer["outcome"] in BACK else unanswered.get(answer["outcome"], REFUSED))


@dead.command()
@click.argument("names", metavar="[APP:SF] ID", nargs=-1)
@operation_id
@click.option("--reason", required=True, help="Why; it is kept with the job.")
@click.option("--result", metavar="JSON", help="The result, if you know that the work is done; nothing is checked.")
@shared
def resolve(*, names: tuple[str, ...], reason: str, result: str | None, url: str | None, as_json: bool) -> None:
    """End a letter whose effect exists: its checks decide, or you do with --result.

    APP:SF names the application that has the handler and its checks. Exits 1 if an effect is missing or cannot be told.
    """
    app, [job_id] = application_and(names, ["ID"])
    given = {} if result is None else {"result": parse(result, "--result")}
    sf = application(app, url)
    options: dict[str, Any] = {"by": user(), "reason": reason, **given}
    found = look_into(sf, lambda sf: about(sf, job_id, lambda sf, id_: sf.dead_letters.resolve(id_, **options)))
    if as_json:
        show_json(found)
    else:
        show_line(f"{found.id} resolved")


async def _replayed(sf: Standfast, job_id: str, reason: str | None) -> tuple[str, dict[str, Any]]:
    return job_id, await sf.dead_letters.replay(job_id, by=user(), reason=reason)


def _describe(
    job_id: str, store: str, *, outcome: str, approval: str | None = None, rule: str = "", why: str = ""
) -> str:
    line = f"{job_id} {outcome}"
    if approval:
        line += f", waiting for {approval}"
    if outcome in BACK:
        return line
    if outcome == "consent_required":
        return f"{job_id} was not replayed: {why}. To consent: standfast consent grant{store} {job_id}"
    return f"{line} by rule {rule or 'unnamed'}" + (f": {why}" if why else "")
