"""Scripts for the cards of handlers: what processes tell agents of their handlers, kept for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from standfast.store.scripts import writes
from standfast.store.steps import Round, Script


class HandlerCard(NamedTuple):
    """What agents are told of one handler. `input_schema` and `effects` are JSON text."""

    queue: str
    name: str
    description: str
    input_schema: str | None
    effects: str


class PublishedHandler(NamedTuple):
    """A handler as it is published: its card, and what it declares. Field order is the statement's."""

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
    """Keep cards: the last published ones."""
    for cards in batches:
        yield "publish_cards", sorted(cards)
    return [None] * len(batches)


def cards() -> Script[list[HandlerCard]]:
    """Read every card."""
    return [HandlerCard(*row) for row in (yield "handler_cards", {})]


def published() -> Script[list[PublishedHandler]]:
    """Read every handler that a process ever published."""
    return [PublishedHandler(*row) for row in (yield "published_handlers", {})]
