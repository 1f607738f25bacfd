"""Scripts for the cards of handlers: what processes tell agents about their handlers, stored for all processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from standfast.store.scripts import writes
from standfast.store.steps import Round, Script


class HandlerCard(NamedTuple):
    """What agents are told about one handler. `input_schema` and `effects` are JSON text."""

    queue: str
    name: str
    description: str
    input_schema: str | None
    effects: str


class PublishedHandler(NamedTuple):
    """A published handler: its card, and what it declares. Field order is the statement's."""

    queue: str
    name: str
    replay_mode: str
    risk: str | None
    consent: int
    description: str
    input_schema: str | None
    effects: str


@writes(separate=True)
def publish(_: Round, batches: Sequence[Sequence[HandlerCard]]) -> Script[list[None]]:
    """Store cards; the last published ones win."""
    for cards in batches:
        yield "publish_cards", sorted(cards)
    return [None] * len(batches)


def cards() -> Script[list[HandlerCard]]:
    """Read every card."""
    return [HandlerCard(*row) for row in (yield "handler_cards", {})]


def published() -> Script[list[PublishedHandler]]:
    """Read every handler that a process ever published."""
    return [PublishedHandler(*row) for row in (yield "published_handlers", {})]
