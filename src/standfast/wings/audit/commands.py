"""Commands about the audit chain: audit log, audit verify, audit export."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import click

from standfast.application import Standfast
from standfast.cli.group import DONE, FAILED, USAGE, look, shared
from standfast.cli.terminal import Cell, Table, as_text, show, show_json, show_line
from standfast.wings.audit.verbs import Decisions
from standfast.wings.audit.words import KINDS
from standfast.wings.records.figures import count_of

COLUMNS = ("seq", "at", "kind", "job", "by", "what")
TOLD_APART = frozenset({"seq", "at", "kind", "job", "by"})


@click.group()
def audit() -> None:
    """List audited decisions, and verify that the record is unchanged."""


@audit.command("log")
@click.option("--job", "--operation-id", "job", metavar="ID", help="Only decisions about this job.")
@click.option("--kind", type=click.Choice(KINDS), help="Only this kind.")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Continue after this number.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most.")
@click.option("--last", type=click.IntRange(1, 1000), metavar="N", help="Only the last N.")
@shared
def log(*, after: int, limit: int, last: int | None, url: str | None, as_json: bool, **wanted: Any) -> None:
    """List decisions, oldest first; those of one transaction have one number and stay together."""
    if last is not None and after:
        raise click.UsageError("--last and --after say two things; give one of them")
    found = look(url, lambda sf: _entries(sf, after, limit, last, wanted))
    if as_json:
        show_json({"items": found, "next_after": found.next_after})
        return
    if found:
        show(Table([_row(entry) for entry in found], COLUMNS))
    else:
        show_line("no decisions")
    if found.next_after is not None:
        click.echo(f"there is more: add --after {found.next_after}, or --last {limit} for the newest", err=True)


def _entries(
    sf: Standfast, after: int, limit: int, last: int | None, wanted: dict[str, Any]
) -> Coroutine[Any, Any, Decisions]:
    return sf.audit.entries(after=after, limit=limit, **wanted) if last is None else sf.audit.last(last, **wanted)


@audit.command()
@shared
def verify(*, url: str | None, as_json: bool) -> None:
    """Verify that the chain is unchanged, and that it agrees with the heads noted outside.

    Exits 1 if it does not, and 2 if the outside notes begin too late to prove the whole chain.
    """
    answer = look(url, lambda sf: sf.audit.verify())
    if as_json:
        show_json(answer)
    else:
        show_line(*_verdict(answer))
    raise click.exceptions.Exit(FAILED if not answer["ok"] else USAGE if "begins_late" in answer else DONE)


@audit.command()
@click.argument("file", type=click.Path())
@shared
def export(*, file: str, url: str | None, as_json: bool) -> None:
    """Write the chain to a new file, one link per line. Exits 1 if it is broken, and writes it as it is."""
    report = look(url, lambda sf: sf.audit.export(file))
    if as_json:
        show_json(report)
    else:
        show_line(f"{count_of(report['links'], 'link')} written to {report['path']}")
    if not report["ok"]:
        if not as_json:
            show_line(*_verdict(report))
        raise click.exceptions.Exit(FAILED)


def _anchored(first: int | None, last: int | None) -> str:
    """Say how far the head of the chain was copied to the log and the file outside the database."""
    if first is None:
        return "No copy of its head is kept outside the database"
    reach = f"up to link {last}" if first <= 1 else f"only from link {first} to {last}"
    return f"Copies of its head are kept outside the database {reach}"


def _row(entry: dict[str, Any]) -> list[str | Cell]:
    apart = TOLD_APART | {"queue"} if "job" in entry else TOLD_APART  # a job's queue is one look away
    rest = [f"{name}={as_text(value)}" for name, value in entry.items() if name not in apart]
    at = entry["at"][:19].replace("T", " ") + "Z"
    about = [entry["kind"], entry.get("job", ""), entry.get("by", "")]
    return [Cell(str(entry["seq"]), "dim"), at, *about, " ".join(rest)]


def _verdict(answer: dict[str, Any]) -> tuple[str, str]:
    if not answer["ok"]:
        advice = "keep the files as they are, and compare with a backup or an export"
        return f"The audit chain is broken: {answer['problem']['why']}; {advice}", "bold red"
    if answer["head"] is None:
        return "The audit chain is intact: nothing was decided yet", "green"
    if "begins_late" in answer:
        advice = "compare with an export of before, or put the older lines in front of the file again"
        return f"The audit chain is intact as far as can be told: {answer['begins_late']}; {advice}", "bold yellow"
    where = _anchored(answer["anchored_from"], answer["anchored"])
    return (
        f"The audit chain is intact: {count_of(answer['entries'], 'decision')}. {where}. Head: {answer['head']}",
        "green",
    )
