"""The command that follows notices: what happens to jobs, as it is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import click

from standfast.cli.group import look, shared
from standfast.cli.sheets import COLOURS
from standfast.cli.terminal import Cell, show_json_line, show_row
from standfast.errors import StoreGone, StoreUnavailable
from standfast.lifecycle import NoticeKind as Kind
from standfast.printable import escaped
from standfast.wings.notices.journal_reader import Reader
from standfast.wings.notices.words import Notice

KIND_COLOURS: dict[str, str] = {
    **dict.fromkeys((Kind.ENQUEUED, Kind.REPLAYED, Kind.GIVEN_BACK), COLOURS["queued"]),
    **dict.fromkeys((Kind.RETRY, Kind.SNOOZED, Kind.CANCEL_ASKED), COLOURS["retry_pending"]),
    **dict.fromkeys((Kind.DEPTH_WARNING, Kind.ALERT_STARTED, Kind.GAP), COLOURS["retry_pending"]),
    **dict.fromkeys((Kind.COMPLETED, Kind.RESOLVED, Kind.APPROVED, Kind.ALERT_ENDED), COLOURS["completed"]),
    **dict.fromkeys((Kind.DEAD_LETTER, Kind.DENIED, Kind.REPLAY_DENIED, Kind.GAVE_UP), COLOURS["dead"]),
    Kind.CLAIMED: COLOURS["running"],
    Kind.CANCELLED: COLOURS["cancelled"],
    Kind.HELD: COLOURS["held"],
}
WIDTHS = (9, max(map(len, Kind)), 12, 36, 0)
Open = Callable[[int | None], Awaitable[Reader]]
ASK_AGAIN = 1.0
"""Seconds until a store that did not answer is asked again."""


def _kinds(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> list[str] | None:
    """Read kinds, with commas between them; an unknown one is refused."""
    named = [kind.strip() for some in given for kind in some.split(",")]
    for kind in named:
        if kind not in list(Kind):
            raise click.BadParameter(f"{kind!r} is not a kind; known are {', '.join(Kind)}")
    return named or None


@click.command()
@click.option("--queue", help="Only of this queue.")
@click.option("--kinds", "--kind", metavar="KIND,…", multiple=True, callback=_kinds, help="Only these kinds.")
@click.option("--after", type=click.IntRange(min=0), help="Continue after this notice; otherwise begin now.")
@click.option("--limit", type=click.IntRange(min=1), help="Stop after this many notices.")
@shared
def tail(
    *,
    queue: str | None,
    kinds: list[str] | None,
    after: int | None,
    limit: int | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Follow what happens to jobs, from every process, until interrupted.

    Each notice ends with its number; --after continues after it. If the store goes away, this waits for it.
    """
    tell = _tell_program if as_json else _tell_person
    queues = None if queue is None else [queue]
    look(url, lambda sf: _follow(partial(sf.reader, kinds, queues), after, limit, tell))


async def _follow(open_: Open, after: int | None, limit: int | None, tell: Callable[[Notice], None]) -> None:
    reader = await open_(after)
    shown = 0
    while True:
        try:
            found = await reader.more()
        except StoreGone:
            raise
        except StoreUnavailable as error:
            reader = await _once_it_is_back(open_, reader.seq, error)
            continue
        for notice in found:
            tell(notice)
            shown += 1
            if shown == limit:
                return


async def _once_it_is_back(open_: Open, after: int, error: StoreUnavailable) -> Reader:
    """Wait for a store that went away, and continue where it was."""
    _say(f"the store is away, and waited for; nothing is missed: {error}")
    while True:
        await asyncio.sleep(ASK_AGAIN)
        with suppress(StoreUnavailable):
            reader = await open_(after)
            _say("the store is back")
            return reader


def _say(text: str) -> None:
    """Print a message about the command itself, apart from the notices."""
    click.echo(f"standfast: {escaped(text)}", err=True)


def _tell_program(notice: Notice) -> None:
    show_json_line(notice._asdict())


def _tell_person(notice: Notice) -> None:
    at = f"{notice.at:%H:%M:%S}Z"
    kind = Cell(notice.kind, KIND_COLOURS.get(notice.kind, ""))
    what = f"{notice.job}{_retry(notice)}" if notice.job else _about(notice)
    show_row([at, kind, notice.queue, what, Cell(str(notice.seq), "dim")], WIDTHS)


def _retry(notice: Notice) -> str:
    """Say which attempt failed, why, and when the next one is due."""
    if notice.kind != Kind.RETRY or not notice.data:
        return ""
    data = notice.data
    return f" (attempt {data['attempt']} failed: {data['reason_code']}; next at {data['retry_at']})"


def _about(notice: Notice) -> str:
    """Say what a notice without a job is about."""
    if notice.kind == Kind.GAP:
        return f"{notice.data['transactions']} transactions no longer kept"
    return " ".join(map(str, notice.data.values()))
