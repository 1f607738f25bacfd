"""Commands about approvals: approvals list, show, approve, deny."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from standfast.cli.group import DONE, REFUSED, look, look_up, shared
from standfast.cli.terminal import Cell, Table, as_text, show, show_json, show_line
from standfast.cli.words import ago, now, when
from standfast.spine.accept import user
from standfast.wings.approvals.words import ApprovalState

COLUMNS = ("id", "state", "for", "does", "asked by", "approvers", "expires", "why")
GONE_ON = frozenset({"replayed", "resolved", "started"})
"""The outcomes of an approval after which work goes on."""


@click.group()
def approvals() -> None:
    """List approvals, and answer them."""


@approvals.command("list")
@click.option("--state", type=click.Choice([str(it) for it in ApprovalState]), default="pending", show_default=True)
@click.option("--all", "every", is_flag=True, help="Whatever their state.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="How many at most.")
@shared
def list_approvals(*, state: str, every: bool, limit: int, url: str | None, as_json: bool) -> None:
    """List approvals, the newest first."""
    found = look(url, lambda sf: sf.approvals.list(None if every else state, limit=limit))
    if as_json:
        show_json({"items": found, "more": found.more})
        return
    if found:
        show(Table([_row(each, now()) for each in found], COLUMNS))
        show_line("see what a letter holds with: standfast dead show JOB", "dim")
    else:
        show_line("nothing waits for an answer" if not every else "no approvals")
    if found.more:
        click.echo(f"there are more than these {limit}: raise --limit, or answer some", err=True)


@approvals.command("show")
@click.argument("approval_id", metavar="ID")
@shared
def show_approval(*, approval_id: str, url: str | None, as_json: bool) -> None:
    """Show one approval: what it allows, what it is bound to, and who may answer it."""
    found = look_up(url, approval_id, lambda sf, id_: sf.approvals.get(id_), "approval")
    if as_json:
        show_json(found)
        return
    facts = [(name.replace("_", " "), _fact(value)) for name, value in found.items() if value not in (None, [])]
    show(Table(facts))


def _fact(value: Any) -> str:
    if isinstance(value, datetime):
        return when(value, now())
    return ", ".join(value) if isinstance(value, list) else as_text(value)


@approvals.command()
@click.argument("approval_id", metavar="ID")
@shared
def approve(*, approval_id: str, url: str | None, as_json: bool) -> None:
    """Approve as the operating-system user; the replay is performed. Exits 4 if you or the policy may not allow it.

    Your groups are those that the store has for you: workers and servers publish them from [groups] in their
    standfast.toml. A file in this directory gives you none.
    """
    answer = look_up(url, approval_id, lambda sf, id_: sf.approvals.approve(id_, by=user()), "approval")
    _tell(answer, as_json=as_json)
    raise click.exceptions.Exit(DONE if answer["outcome"] in GONE_ON else REFUSED)


@approvals.command()
@click.argument("approval_id", metavar="ID")
@click.option("--reason", required=True, help="Why; the requester is told.")
@shared
def deny(*, approval_id: str, reason: str, url: str | None, as_json: bool) -> None:
    """Deny: the letter stays dead, the redrive ends."""
    options = {"by": user(), "reason": reason}
    answer = look_up(url, approval_id, lambda sf, id_: sf.approvals.deny(id_, **options), "approval")
    _tell(answer, as_json=as_json)


def _tell(answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(answer)
    else:
        what = answer.get("job") or f"redrive {answer.get('redrive')}"
        show_line(f"{what} {answer['outcome']}: {answer['why']}")


def _row(approval: dict[str, Any], at: datetime) -> list[str | Cell]:
    what = approval["job"] or f"redrive {approval['redrive']}"
    people = [approval["asked_by"] or "the policy", ", ".join(approval["approver_groups"]) or "any other person"]
    style = "bold magenta" if approval["state"] == "pending" else "dim"
    return [
        approval["id"],
        Cell(approval["state"], style),
        what,
        approval["target"] if approval["job"] else "",
        *people,
        ago(approval["expires_at"], at),
        approval["reason"] or approval["rule"],
    ]
