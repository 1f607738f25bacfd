"""Which letters a token reaches, for doors behind a server."""

from __future__ import annotations

from collections.abc import Mapping

from standfast.redact import is_shown
from standfast.server.auth import check_queue, check_whole
from standfast.server.problems import Problem
from standfast.wings.access.words import Grant, Right
from standfast.wings.records.letter_query import WantedLetters


def check_queue_of(grant: Grant, wanted: WantedLetters) -> None:
    """Refuse the letters of a queue that a token does not reach, and searches in what it may not read."""
    if wanted.queue is not None:
        check_queue(grant, wanted.queue)
    check_sought(grant, wanted.chosen())


def check_one_queue(grant: Grant, wanted: WantedLetters) -> None:
    """Refuse letters of queues that a token does not reach: a limited token must name a queue that it does reach."""
    if wanted.queue is None:
        check_whole(grant, "Name one of them as queue.")
    check_queue_of(grant, wanted)


def check_sought(grant: Grant, chosen: Mapping[str, str]) -> None:
    """Refuse to search payloads for a token that may not read them: hidden values could be found by trial."""
    if grant.may(Right.READ_PAYLOADS):
        return
    label, _, value = chosen.get("label", "").partition(":")
    hidden = [name for name in ("text", "payload") if name in chosen]
    if value and not is_shown(label, value):
        hidden.append("a value of this label")
    if hidden:
        hint = "Choose by queue, handler, cause or time, or ask with the token of an operator."
        raise Problem(403, "forbidden", f"the token may not read payloads, so it cannot choose by {hidden[0]}", hint)
