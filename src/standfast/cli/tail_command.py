"""The command that listens: what happens to jobs, as it is committed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import click

from standfast.cli.door import look, shared
from standfast.cli.sheets import COLOURS
from standfast.cli.terminal import Cell, show_json_line, show_row
from standfast.queue.notices import KINDS, Notice

KIND_COLOURS = {
    **dict.fromkeys(("enqueued", "replayed", "given_back"), COLOURS["queued"]),
    **dict.fromkeys(("retry", "snoozed", "depth_warning", "cancel_asked"), COLOURS["retry_pending"]),
    "claimed": COLOURS["running"],
    "completed": COLOURS["completed"],
    "resolved": COLOURS["completed"],
    "cancelled": COLOURS["cancelled"],
    "dead_letter": COLOURS["dead"],
    "held": COLOURS["held"],
}
WIDTHS = (9, max(map(len, KINDS)), 12, 36, 0)


@click.command()
@click.option("--queue", help="Only of this queue.")
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only this kind; may be repeated.")
@click.option("--after", type=click.IntRange(min=0), help="Go on behind this notice; else from now on.")
@click.option("--limit", type=click.IntRange(min=1), help="End after so many notices.")
@shared
def tail(
    *,
    queue: str | None,
    kinds: tuple[str, ...],
    after: int | None,
    limit: int | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Follow what happens to jobs, from every process, until interrupted.

    Each notice ends with its number: --after goes on behind it.
    """
    tell = _tell_program if as_json else _tell_person
    look(url, lambda sf: _follow(sf.subscribe(kinds or None, queue, after), limit, tell))


async def _follow(notices: AsyncIterator[Notice], limit: int | None, tell: Callable[[Notice], None]) -> None:
    told = 0
    async for notice in notices:
        tell(notice)
        told += 1
        if told == limit:
            return


def _tell_program(notice: Notice) -> None:
    show_json_line(notice._asdict())


def _tell_person(notice: Notice) -> None:
    at = f"{notice.at:%H:%M:%S}Z"
    kind = Cell(notice.kind, KIND_COLOURS.get(notice.kind, ""))
    what = notice.job or str(notice.data.get("schedule", ""))
    show_row([at, kind, notice.queue, what, Cell(str(notice.seq), "dim")], WIDTHS)
