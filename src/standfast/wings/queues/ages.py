"""A changed `max_age` holds for what already waits too, and is stamped on it in bites: no transaction may take long.

Publishing leaves a mark, which says up to which number it is done. Whoever published goes on from there, and if it does
not come to an end, the sweepers do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from standfast.store.scripts import writes
from standfast.store.steps import Round, Script

MARK = "age "
"""Before a number and a queue: up to this number its jobs have the expiry of the rules in force."""
BITE = 2000
"""How many jobs one transaction looks at."""


def mark(round_: Round, queues: Iterable[str]) -> Script[None]:
    """Write down that the jobs of these queues must get another expiry."""
    for queue in queues:
        yield "mark_upkeep", {"name": f"{MARK}0 {queue}", "now": round_.now}


def marked(upkeep: Iterable[str]) -> bool:
    """Tell whether some jobs still have the expiry of earlier rules."""
    return any(name.startswith(MARK) for name in upkeep)


@writes(separate=True)
def restamp(round_: Round, asked: Sequence[None]) -> Script[list[bool]]:
    """Take a bite; answer whether there is more to do. What another process works on is left to it."""
    more = False
    for (name,) in (yield "age_marks", {}):
        after, _, queue = name.removeprefix(MARK).partition(" ")
        [(last, seen)] = yield "numbers_behind", {"after": int(after), "limit": BITE}
        if seen:
            bite = {"queue": queue, "after": int(after), "last": last}
            yield "restamp_expiry", bite
            round_.note_work(queue, 0.0)  # a worker may have passed over what was locked
            if (yield "unstamped", bite) == [(True,)]:  # others held some of it just now
                more = True
                continue
        yield "forget_upkeep", {"name": name}
        if seen == BITE:
            yield "mark_upkeep", {"name": f"{MARK}{last} {queue}", "now": round_.now}
            more = True
    return [more] * len(asked)
