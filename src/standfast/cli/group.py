"""The group every command stands in: options all of them take, exit codes, and errors in one line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click

from standfast.application import Standfast
from standfast.cli import logs
from standfast.errors import (
    ApprovalRequired,
    ConfigurationError,
    IdempotencyConflict,
    NotALetter,
    PayloadRejected,
    PolicyDenied,
    StandfastError,
    StoreUnavailable,
    UnknownJob,
    UnknownQueue,
    UnknownRequest,
    WrongAddress,
)
from standfast.printable import escaped
from standfast.settings import without_password

DONE = 0
FAILED = 1
"""A job that is dead, held or cancelled; a store that is unhealthy, does not answer or cannot be used."""
USAGE = 2
"""Something must be written differently; or the time ran out."""
NOT_FOUND = 3
REFUSED = 4
"""The policy says no, or wants a person first."""
INTERRUPTED = 130


class NoStore(StandfastError):
    """There is nothing to look at, and looking does not make it."""


CODES: dict[type[StandfastError], int] = {
    PayloadRejected: USAGE,
    WrongAddress: FAILED,
    ConfigurationError: USAGE,
    IdempotencyConflict: USAGE,
    NoStore: NOT_FOUND,
    NotALetter: FAILED,
    UnknownJob: NOT_FOUND,
    UnknownQueue: NOT_FOUND,
    UnknownRequest: NOT_FOUND,
    PolicyDenied: REFUSED,
    ApprovalRequired: REFUSED,
}
"""The exit code of each error, the first that fits; of any other it is FAILED."""

HARMLESS = (PayloadRejected, ConfigurationError, UnknownQueue, PolicyDenied, ApprovalRequired)
NEXT: dict[type[StandfastError], str] = {
    NoStore: "the first job makes one: standfast enqueue; or name another with --url",
    NotALetter: "look at it with: standfast status",
    UnknownJob: "list what is here with: standfast jobs",
    StoreUnavailable: "see what is wrong with: standfast doctor",
    WrongAddress: "see what is wrong with: standfast doctor",
}

Command = TypeVar("Command", bound=Callable[..., Any])
Answer = TypeVar("Answer")
Question = Callable[[Standfast], Awaitable[Answer]]


class CommandGroup(click.Group):
    """Lets every command raise what it likes, and ends with one line and the right code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except StandfastError as error:
            click.echo(f"standfast: {error_line(error)}", err=True)
            ctx.exit(exit_code(error))
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)


def exit_code(error: StandfastError) -> int:
    """Give the code this error ends with."""
    return next((code for kind, code in CODES.items() if isinstance(error, kind)), FAILED)


def error_line(error: StandfastError) -> str:
    """Say in one line what happened, what is safe, and what to do next."""
    parts = [escaped(str(error))]
    if isinstance(error, HARMLESS) and "nothing was" not in parts[0]:
        parts.append("nothing was changed")
    parts += [escaped(note) for note in getattr(error, "__notes__", ())]
    parts += [hint for kind, hint in NEXT.items() if isinstance(error, kind)][:1]
    return "; ".join(parts)


def shared(command: Command) -> Command:
    """Give a command the options that all of them take."""
    command = click.option("--json", "as_json", is_flag=True, help="Write JSON.")(command)
    return click.option("--url", metavar="URL", help="The store; else $STANDFAST_URL, standfast.toml, ./standfast.db.")(
        command
    )


def ask(url: str | None, question: Question[Answer]) -> Answer:
    """Open the store, ask it one thing, and let it go. One that is not there is made."""
    return ask_of(Standfast(url), question)


def ask_of(sf: Standfast, question: Question[Answer], *, publishes: bool = False) -> Answer:
    """Ask an application one thing, and let its store go. Only one whose code does the work publishes its rules."""
    _log(sf)
    return asyncio.run(_ask(sf, question, publishes=publishes))


def look(url: str | None, question: Question[Answer]) -> Answer:
    """Ask a store that is there; one that is not stays away."""
    return look_into(Standfast(url), question)


def look_into(sf: Standfast, question: Question[Answer]) -> Answer:
    """Ask an application whose store is there."""
    if not sf.exists():
        raise NoStore(f"no store at {without_password(sf.settings.url.value)}")
    _log(sf)
    return asyncio.run(_ask(sf, question))


def _log(sf: Standfast) -> None:
    url, file = sf.settings.url.value, sf.settings.audit_file.value
    logs.start_quietly(sf.settings.log.value, heads_in_file=file is not None or not url.startswith("postgres"))


async def _ask(sf: Standfast, question: Question[Answer], *, publishes: bool = False) -> Answer:
    sf.policy.keep_out()
    if not publishes:  # a file that lies about is not put in force by asking: servers and workers do that
        sf.publish_nothing()
    try:
        return await question(sf)
    except UnknownJob as error:
        if not isinstance(error, NotALetter):  # it may well be in another store
            error.add_note(f"the store is {without_password(sf.settings.url.value)}")
        raise
    finally:
        await sf.close()
