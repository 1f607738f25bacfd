"""Commands about queues: queue list, queue pause, queue resume, queue try."""

from __future__ import annotations

import click

from standfast.cli.group import look, shared
from standfast.cli.terminal import show, show_json, show_line
from standfast.cli.words import now
from standfast.profiles import RULES
from standfast.spine.accept import user
from standfast.wings.queues.boards import profile_board, queue_board


@click.group()
def queue() -> None:
    """List, pause and resume queues, and try what they depend on."""


@queue.command("list")
@click.option("--profiles", is_flag=True, help="Also print the ready-made rules, which hold for queues of their names.")
@shared
def list_queues(*, profiles: bool, url: str | None, as_json: bool) -> None:
    """List every queue: what it holds, who serves it, and the rules in force.

    The column `from` says where the rules come from: declared in code or in standfast.toml, the profile of a queue of
    this name, that profile with changes, or the defaults.
    """
    found = look(url, lambda sf: sf.queues.describe())
    if as_json:
        ready_made = {"profiles": RULES} if profiles else {}
        show_json({"items": [{"name": name, **facts} for name, facts in found.items()], **ready_made})
    else:
        show(queue_board(found, now()), *([profile_board()] if profiles else []))


@queue.command()
@click.argument("name")
@click.option("--reason", help="Why; kept in the audit, and shown while it is paused.")
@shared
def pause(*, name: str, reason: str | None, url: str | None, as_json: bool) -> None:
    """Pause a queue in every process; running jobs finish."""
    look(url, lambda sf: sf.queues.pause(name, by=user(), reason=reason))
    _tell(name, as_json=as_json, paused=True)


@queue.command()
@click.argument("name")
@click.option("--reason", help="Why; kept in the audit.")
@shared
def resume(*, name: str, reason: str | None, url: str | None, as_json: bool) -> None:
    """Resume a paused queue."""
    look(url, lambda sf: sf.queues.resume(name, by=user(), reason=reason))
    _tell(name, as_json=as_json, paused=False)


@queue.command("try")
@click.argument("dependency")
@shared
def try_now(*, dependency: str, url: str | None, as_json: bool) -> None:
    """Have one job try a dependency that has not answered.

    DEPENDENCY is a host such as https://crm.example:443, or the name that a queue's breaker gives it.
    """
    trying = look(url, lambda sf: sf.queues.try_now(dependency))
    if as_json:
        show_json({"dependency": dependency, "trying": trying})
    else:
        show_line(f"{dependency} is tried with the next job" if trying else f"nothing is held back for {dependency}")


def _tell(name: str, *, as_json: bool, paused: bool) -> None:
    if as_json:
        show_json({"name": name, "paused": paused})
    else:
        show_line(f"{name} is paused" if paused else f"{name} resumed")
