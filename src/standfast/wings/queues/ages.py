"""A changed `max_age` also applies to waiting jobs. It is written to them in batches: no transaction may take long.

Publishing leaves a mark, which says up to which job number this is done. The publishing process continues from there;
if it does not finish, the sweepers do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from standfast.store.scripts import writes
from standfast.store.steps import Round, Script

MARK = "age "
"""Followed by a number and a queue: up to this number, the queue's jobs have the expiry of the rules in force."""
BITE = 2000
"""How many jobs one transaction looks at."""


def mark(round_: Round, queues: Iterable[str]) -> Script[None]:
    """Mark that the jobs of these queues must get a new expiry."""
    for queue in queues:
        yield "mark_upkeep", {"name": f"{MARK}0 {queue}", "now": round_.now}


def marked(upkeep: Iterable[str]) -> bool:
    """Return whether some jobs still have the expiry of earlier rules."""
    return any(name.startswith(MARK) for name in upkeep)


@writes(separate=True)
def restamp(round_: Round, asked: Sequence[None]) -> Script[list[bool]]:
    """Process a batch; return whether there is more to do. Marks that another process works on are left to it."""
    more = False
    for (name,) in (yield "age_marks", {}):
        after, _, queue = name.removeprefix(MARK).partition(" ")
        [(last, seen)] = yield "numbers_behind", {"after": int(after), "limit": BITE}
        if seen:
            bite = {"queue": queue, "after": int(after), "last": last}
            yield "restamp_expiry", bite
            round_.note_work(queue, 0.0)  # a worker may have skipped the locked jobs
            if (yield "unstamped", bite) == [(True,)]:  # other transactions had locked some of the jobs
                more = True
                continue
        yield "forget_upkeep", {"name": name}
        if seen == BITE:
            yield "mark_upkeep", {"name": f"{MARK}{last} {queue}", "now": round_.now}
            more = True
    return [more] * len(asked)
