"""Commands that call a handler: run, submit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from standfast.cli.applications import application
from standfast.cli.group import DONE, FAILED, REFUSED, USAGE, Command, ask_of, shared, store_words
from standfast.cli.parameters import duration, payload_from
from standfast.cli.terminal import show_json, show_line
from standfast.typed.reply import Reply
from standfast.wings.calls.refused_retries import BY_POLICY
from standfast.wings.calls.replies import with_grant

UNFINISHED = frozenset({"queued", "running", "timeout"})
"""Statuses that are not an end: the call goes on without its caller, or its outcome is unknown."""
OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.argument("words", metavar="[APP:SF] HANDLER [JSON]", nargs=-1, required=True),
    click.option("--session", help="The session it belongs to."),
    click.option(
        "--key",
        "--idempotency-key",
        "idempotency_key",
        help="Idempotency key: the same key and payload are called once.",
    ),
)


def called(command: Command) -> Command:
    """Add the options of every call to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@click.command()
@called
@click.option("--timeout", type=duration, help="How long to wait; by default as long as the handler may take.")
@shared
def run(*, words: Sequence[str], url: str | None, as_json: bool, **options: Any) -> None:
    """Call a handler now, recorded before the call, and show the result.

    HANDLER is queue/handler, the name of a queue with one handler, or a handler's name that no other queue has. JSON
    is its payload, `-` reads it from standard input. With APP:SF, a module and the Standfast object in it, the handler
    is called in this process; without, the call is queued for a worker and waited for.

    Exits 0 if it is done, 1 if it failed, is held or was cancelled, 2 if it is still queued or the time ran out (follow
    it with `standfast wait`), 4 if the policy refuses.
    """
    app, handler, content = _read(words)
    sf = application(app, url)
    answer = ask_of(sf, lambda sf: sf.run(handler, content, **options), publishes=app is not None)
    _hand_out(_for_shell(answer, app), as_json=as_json)
    raise click.exceptions.Exit(USAGE if answer["status"] in UNFINISHED else _exit_code(answer))


@click.command()
@called
@click.option("--priority", type=int, help="Higher runs first.")
@click.option("--lease", type=duration, default=600.0, show_default=True, help="How long its worker may be silent.")
@shared
def submit(*, words: Sequence[str], url: str | None, as_json: bool, **options: Any) -> None:
    """Let a worker call a handler once, and print the job's id.

    HANDLER and JSON are as for `standfast run`. Queued is not done: follow it with `standfast wait`.

    Exits 0 if the call is stored. If one with the same --key was stored before, exits 1 if that one failed, is held or
    was cancelled.
    """
    app, handler, content = _read(words)
    sf = application(app, url)
    answer = ask_of(sf, lambda sf: sf.submit(handler, content, **options), publishes=app is not None)
    _hand_out(_for_shell(answer, app), as_json=as_json)
    raise click.exceptions.Exit(DONE if answer["status"] in {"queued", "running"} else _exit_code(answer))


def _read(words: Sequence[str]) -> tuple[str | None, str, Any]:
    """Separate the application, which may come first, from the handler and its payload, which may be left out."""
    app, given = (words[0], words[1:]) if ":" in words[0] else (None, words)
    if len(given) not in {1, 2}:
        command = click.get_current_context().command_path
        raise click.UsageError(f"give a handler, and after it at most its payload: {command} [app:sf] HANDLER [JSON]")
    return app, given[0], payload_from(given[1] if given[1:] else None)


def _for_shell(answer: Reply[Any], app: str | None) -> dict[str, Any]:
    """Name the store in the command that a hint suggests."""
    return with_grant(dict(answer), store_words(app))


def _hand_out(answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(answer)
        return
    show_line(f"{answer['operation_id']} {answer['status']}: {answer['hint']}")
    if answer.get("error"):
        show_line(f"{answer['reason_code']}: {answer['error']}")
    if answer.get("result") is not None:
        show_json(answer["result"])


def _exit_code(answer: Reply[Any]) -> int:
    if answer["status"] == "ok":
        return DONE
    return REFUSED if answer["status"] == "failed" and answer.get("reason_code") in BY_POLICY else FAILED
