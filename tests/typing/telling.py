"""What a transaction can tell. `mypy --strict` reads this; nothing runs it.

The comment is the test: the type checker complains of it if it has nothing to ignore, because any text could be told.
"""

from __future__ import annotations

from standfast.lifecycle import NoticeKind
from standfast.store.steps import Round


def tell(round_: Round) -> None:
    round_.notices[NoticeKind.ENQUEUED, "mail"].append("a job's id")
    round_.notices["enqueued", "mail"].append("a job's id")  # type: ignore[index]  # pyright: ignore[reportArgumentType]
