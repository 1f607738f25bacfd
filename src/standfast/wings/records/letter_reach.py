"""Which letters a token reaches, for doors that a server stands behind."""

from __future__ import annotations

from standfast.server.auth import check_queue, check_whole
from standfast.wings.access.words import Grant
from standfast.wings.records.letter_query import WantedLetters


def check_queue_of(grant: Grant, wanted: WantedLetters) -> None:
    """Refuse the letters of a queue that a token does not reach."""
    if wanted.queue is not None:
        check_queue(grant, wanted.queue)


def check_one_queue(grant: Grant, wanted: WantedLetters) -> None:
    """Refuse letters of queues that a token does not reach: it must name one that it does."""
    if wanted.queue is None:
        check_whole(grant, "Name one of them as queue.")
    check_queue_of(grant, wanted)
