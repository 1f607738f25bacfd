"""The group that contains every command: shared options, exit codes, and errors in one line."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from standfast.cli import logs
from standfast.cli.applications import APPLICATION, opened, take_application
from standfast.concurrency.store_moved import EXIT_CODE
from standfast.errors import (
    ApprovalRequired,
    ConfigurationError,
    IdempotencyConflict,
    NotALetter,
    PayloadRejected,
    PolicyDenied,
    StandfastError,
    StoreMoved,
    StoreUnavailable,
    UnknownHandler,
    UnknownJob,
    UnknownQueue,
    UnknownRequest,
    WrongAddress,
)
from standfast.printable import escaped
from standfast.settings import without_password

DONE = 0
FAILED = 1
"""A job is dead, held or cancelled; or a store is unhealthy, does not answer or cannot be used."""
USAGE = 2
"""The command must be written differently; or the time ran out."""
NOT_FOUND = 3
REFUSED = 4
"""The policy denies it, or requires a person first."""
MOVED = EXIT_CODE
"""The store of a worker or server has moved: start it with the address in the message."""
PROCESSES = frozenset({"worker", "serve"})
"""The commands that a supervisor runs."""
INTERRUPTED = 130
_URL = "standfast.url"
"""Where a context keeps the store's address from the command line."""


class NoStore(StandfastError):
    """The store does not exist, and reading does not create it."""


CODES: dict[type[StandfastError], int] = {
    PayloadRejected: USAGE,
    WrongAddress: FAILED,
    ConfigurationError: USAGE,
    IdempotencyConflict: USAGE,
    NoStore: NOT_FOUND,
    NotALetter: FAILED,
    UnknownHandler: NOT_FOUND,
    UnknownJob: NOT_FOUND,
    UnknownQueue: NOT_FOUND,
    UnknownRequest: NOT_FOUND,
    PolicyDenied: REFUSED,
    ApprovalRequired: REFUSED,
}
"""The exit code of each error; the first match counts. Any other error gives FAILED."""

HARMLESS = (PayloadRejected, ConfigurationError, UnknownQueue, PolicyDenied, ApprovalRequired)
NEXT: dict[type[StandfastError], str] = {
    NoStore: "the first job makes one: standfast enqueue; or name another with --url, or your application "
    "(its module and object, such as shop:app) behind the command",
    NotALetter: "look at it with: standfast status{store}",
    UnknownJob: "list what is here with: standfast jobs{store}",
    StoreMoved: "use --url {home} or set STANDFAST_URL to it",
    StoreUnavailable: "see what is wrong with: standfast doctor{store}",
    WrongAddress: "see what is wrong with: standfast doctor{store}",
}

CELERY = {
    "beat": "No process is needed: a worker enqueues what is due. See standfast schedule list.",
    "inspect": "Use standfast workers, standfast jobs --state running or standfast stats.",
    "purge": "standfast jobs --state queued lists what waits, and standfast cancel ends a job.",
    "flower": "Run standfast serve: it has the dashboard.",
    "events": "Use standfast tail.",
    "result": "Use standfast status, with the id of the task.",
    "call": "Use standfast enqueue, with the task in --handler.",
    "-A": "Name the application after the command: standfast worker shop:app.",
}
ELSEWHERE = {
    "redrive": "dead redrive",
    "replay": "dead replay",
    "letters": "dead list",
    "pause": "queue pause",
    "resume": "queue resume",
    "queues": "queue list",
    "schedules": "schedule list",
    "audit list": "audit log",
}
"""What people type, and the command that they mean."""
CELERY_WORKER = {
    "-Q": "Use --queues.",
    "-c": "Use --total for slots over all queues, or --processes for more processes.",
    "-B": "Leave it out: a worker enqueues what is due.",
    "--beat": "Leave it out: a worker enqueues what is due.",
    "-l": "Set STANDFAST_LOG_LEVEL=debug, info, warning or error.",
    "--loglevel": "Set STANDFAST_LOG_LEVEL=debug, info, warning or error.",
    "-P": "Leave it out: tasks run in threads, those with a time_limit in processes of their own.",
    "--pool": "Leave it out: tasks run in threads, those with a time_limit in processes of their own.",
    "-n": "Leave it out: a worker names itself.",
    "--hostname": "Leave it out: a worker names itself.",
    "-E": "Leave it out: every job tells what happens to it; see standfast tail.",
    "--autoscale": "Use --total, and start more workers when you need them.",
    "--max-tasks-per-child": "Use --recycle-after.",
    "--max-memory-per-child": "Use --recycle-above.",
}
"""What Celery users type, anywhere and after `worker`, and what to type instead."""

if TYPE_CHECKING:
    from standfast.application import Standfast

Command = TypeVar("Command", bound=Callable[..., Any])
Answer = TypeVar("Answer")
Question = Callable[["Standfast"], Awaitable[Answer]]


def _check_elsewhere(ctx: click.Context, typed: str) -> None:
    """Name the command that somebody means who types another."""
    if typed in ELSEWHERE:
        ctx.fail(f"No such command {typed!r}. Did you mean {ELSEWHERE[typed]!r}?")


class CommandGroup(click.Group):
    """Lets every command raise its errors, and turns them into one line and the right exit code."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options before the command."""
        with _usage_in_one_line():
            return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and the application that its arguments may begin with."""
        if self.get_command(ctx, args[0]) is None and args[0] in CELERY:
            ctx.fail(f"{args[0]!r} is a command of Celery. {CELERY[args[0]]}")
        if self.get_command(ctx, args[0]) is None:
            _check_elsewhere(ctx, args[0])
        name, command, rest = super().resolve_command(ctx, args)
        before: list[str] = []
        found = command
        while isinstance(found, click.Group) and rest and (inner := found.get_command(ctx, rest[0])) is not None:
            before.append(rest[0])
            found, rest = inner, rest[1:]
        if isinstance(found, click.Group):
            _check_elsewhere(ctx, " ".join([name or "", *before, *rest[:1]]))
            _check_command_first(ctx, " ".join(["standfast", name or "", *before]), found, rest)
        elif found is not None:
            rest = take_application(ctx, found, rest)
        return name, command, [*before, *rest]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with _usage_in_one_line():
                return super().invoke(ctx)
        except StandfastError as error:
            click.echo(f"standfast: {error_line(error, store_words())}", err=True)
            moved = isinstance(error, StoreMoved) and ctx.invoked_subcommand in PROCESSES
            ctx.exit(MOVED if moved else exit_code(error))
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)


class UsageInOneLine(click.UsageError):
    """The command line must be written differently."""

    def show(self, file: IO[str] | None = None) -> None:
        """Print it like every other error."""
        click.echo(f"standfast: {escaped(self.message)}", file, err=file is None)


def _check_command_first(ctx: click.Context, typed: str, group: click.Group, rest: list[str]) -> None:
    """Refuse an application in the place of a group's command, and say what to type."""
    if rest and ":" in rest[0]:
        command = "COMMAND" if group.get_command(ctx, "list") is None else "list"
        raise UsageInOneLine(f"Name the application after the command: {typed} {command} {rest[0]}", ctx)


@contextmanager
def _usage_in_one_line() -> Iterator[None]:
    """Reword click's usage errors in one line, naming the command whose help says more."""
    try:
        yield
    except (UsageInOneLine, click.exceptions.NoArgsIsHelpError):
        raise
    except click.UsageError as error:
        said = " ".join(error.format_message().split())
        what = said if said[-1] in ".?" else f"{said}."
        ours = _instead(error) if isinstance(error, click.NoSuchOption) else ""
        path = "standfast" if error.ctx is None else error.ctx.command_path
        raise UsageInOneLine(f"{what} {ours or f'See: {path} --help'}", error.ctx) from error


def _instead(error: click.NoSuchOption) -> str:
    """Return what to type instead of a Celery option."""
    at_worker = error.ctx is not None and error.ctx.info_name == "worker"
    return (CELERY | CELERY_WORKER if at_worker else CELERY).get(error.option_name, "")


def exit_code(error: StandfastError) -> int:
    """Return the exit code for this error."""
    return next((code for kind, code in CODES.items() if isinstance(error, kind)), FAILED)


def store_words(app: str | None = None) -> str:
    """Return the words that point the next command to the same store; empty if this command named no store."""
    named = click.get_current_context().meta
    app, url = app or named.get(APPLICATION), named.get(_URL)
    if app is not None:
        return f" {app}"
    return "" if url is None else f" --url {shlex.quote(without_password(url))}"


def error_line(error: StandfastError, store: str = "") -> str:
    """Say in one line what happened, what is safe, and what to do next; `store` is how a command names the store."""
    parts = [escaped(str(error))]
    if isinstance(error, HARMLESS) and "nothing was" not in parts[0]:
        parts.append("nothing was changed")
    parts += [escaped(note) for note in getattr(error, "__notes__", ())]
    home = shlex.quote(getattr(error, "home", ""))
    hints = [hint for kind, hint in NEXT.items() if isinstance(error, kind)]
    parts += [escaped(hint.format(store=store, home=home)) for hint in hints[:1]]
    return "; ".join(parts)


def shared(command: Command) -> Command:
    """Add the options that all commands take."""
    command = click.option("--json", "as_json", is_flag=True, help="Write JSON.")(command)
    return _url_option(callback=_nearest_url)(command)


def _nearest_url(context: click.Context, _option: click.Parameter, given: str | None) -> str | None:
    """Return the store's address: the command's own, else the one given before the command."""
    before: str | None = context.find_root().params.get("url")
    context.meta[_URL] = before if given is None else given
    return before if given is None else given


def _url_option(**more: Any) -> Callable[[Command], Command]:
    default = "that of APP:SF, if that is the first argument, else $STANDFAST_URL, standfast.toml or ./standfast.db"
    return click.option("--url", metavar="URL", help=f"The store; by default {default}.", **more)


with_url = _url_option()
"""Lets the store's address come before the command, too."""


def ask(url: str | None, question: Question[Answer]) -> Answer:
    """Open the store, ask it one question, and close it. A missing store is created."""
    return ask_of(opened(url), question)


def ask_of(sf: Standfast, question: Question[Answer], *, publishes: bool = False) -> Answer:
    """Ask an application one question, and close its store. Only an application that runs jobs publishes its rules."""
    _log(sf)
    return asyncio.run(_ask(sf, question, publishes=publishes))


def look(url: str | None, question: Question[Answer]) -> Answer:
    """Ask an existing store one question; a missing one is not created."""
    return look_into(opened(url), question)


def look_up(
    url: str | None, given: str, question: Callable[[Standfast, str], Awaitable[Answer]], what: str = "job"
) -> Answer:
    """Ask about something by its id; an unambiguous beginning of the id is enough."""
    return look(url, lambda sf: about(sf, given, question, what))


async def about(
    sf: Standfast, given: str, question: Callable[[Standfast, str], Awaitable[Answer]], what: str = "job"
) -> Answer:
    """Complete an id, and ask about what it names."""
    return await question(sf, await sf.full_id(given, what))


def look_into(sf: Standfast, question: Question[Answer]) -> Answer:
    """Ask an application whose store must exist."""
    if not sf.exists():
        raise NoStore(f"no store at {without_password(sf.settings.url.value)}")
    _log(sf)
    return asyncio.run(_ask(sf, question))


def _log(sf: Standfast) -> None:
    logs.start_quietly(sf.settings.log.value)


async def _ask(sf: Standfast, question: Question[Answer], *, publishes: bool = False) -> Answer:
    sf.policy.keep_out()
    if not publishes:  # a question must not put a nearby settings file in force: servers and workers do that
        sf.publish_nothing()
    try:
        return await question(sf)
    except UnknownJob as error:
        if not isinstance(error, NotALetter):  # it may well be in another store
            error.add_note(f"the store is {without_password(sf.settings.url.value)}")
        raise
    finally:
        await sf.close()
