"""The card of a handler: what agents are told about it. Cards are published: servers without the code have them too."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from standfast.concurrency.guarded import call_guarded
from standfast.printable import visible
from standfast.spine.registry import Handler, Registry
from standfast.store.store import Store
from standfast.wings.queues import card_scripts
from standfast.wings.queues.card_scripts import HandlerCard

LONGEST_DESCRIPTION = 2000
"""The most characters of a docstring that are published."""
LONGEST_SCHEMA = 50_000
"""The most characters of an input schema that is published; a longer one is left out."""
DEPENDS = "*"
"""Stands for the effects of a handler if they depend on the job."""

log = logging.getLogger("standfast.queue")


def publish(store: Store, registry: Registry) -> None:
    """Publish the cards of this process's handlers if the store's differ."""
    cards = [card_of(handler) for handler in list(registry.own.values())]
    if cards and not set(cards) <= set(store.read(card_scripts.cards()).result()):
        store.write(card_scripts.publish, cards).result()


def card_of(handler: Handler) -> HandlerCard:
    """Return the card of a handler."""
    return HandlerCard(
        handler.queue,
        handler.name,
        _description(handler.function),
        _schema_text(handler),
        msgspec.json.encode(_effect_names(handler)).decode(),
    )


def _description(function: Callable[..., Any]) -> str:
    """Return a handler's docstring, but not the docstring of a library's wrapper around it."""
    while isinstance(function, partial):
        function = function.func
    written = function.__doc__ if inspect.isroutine(function) else type(function).__call__.__doc__
    return visible(inspect.cleandoc(written or ""))[:LONGEST_DESCRIPTION]


def _effect_names(handler: Handler) -> list[str]:
    return [DEPENDS] if callable(handler.effects) else [effect.name for effect in handler.effects]


def _schema_text(handler: Handler) -> str | None:
    """Return the JSON schema of a handler's input as text; None if it has none, or none can be made."""
    if handler.input is None:
        return None
    text = call_guarded(partial(_encoded_schema, handler.input), partial(_without_schema, handler.name))
    return text if text is None or len(text) <= LONGEST_SCHEMA else None


def _encoded_schema(type_: Any) -> str | None:
    of_model: Callable[[], dict[str, Any]] | None = getattr(type_, "model_json_schema", None)
    schema = of_model() if of_model else msgspec.json.schema(type_)
    return msgspec.json.encode(schema, order="sorted").decode()


def _without_schema(handler: str, error: Exception) -> None:
    """Go on without a schema: the type is the user's, and code of any library may have failed."""
    log.info("handler %s: agents are told no input schema, because none can be made (%s)", handler, error)
