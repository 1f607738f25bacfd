"""What `effects=` of a handler takes, and which effects a job has because of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.spine.registry import Declaration, Handler
from standfast.wings.effects.handler_job import Job
from standfast.wings.effects.words import Effect

Effects = Effect | Sequence[Effect] | Callable[..., Any]
"""What `effects=` takes: effects, another handler to take the effects of, or a callable of the job that returns either.

A callable may also return `(handler, payload)`: that handler's effects, checked as if the job had this payload.
"""


def checked_effects(declaration: Declaration, effects: Any, *, by_default: bool = False) -> Any:
    """Check the value of `effects=`: `verify_first` needs at least one effect that can be verified.

    With `by_default`, the mode is a default and not the handler's own.
    """
    if callable(effects):  # this includes a handler
        return effects
    found = _several(declaration.name, effects)
    if declaration.replay_mode == "verify_first" and not any(effect.verifiable for effect in found):
        whose = "the default of standfast.toml ([store] replay)" if by_default else "its replay"
        raise ConfigurationError(
            f"handler {declaration.name}: replay='verify_first', {whose}, needs effects to verify; declare one, such "
            "as effects=[Effect('ticket', verify)], or choose replay='manual' or replay='replay' for this handler"
        )
    return found


def effect_names(handler: Handler) -> tuple[str, ...]:
    """Return the names of the effects that a handler declares; none if they depend on the job."""
    return () if callable(handler.effects) else tuple(effect.name for effect in handler.effects)


def effects_of(handler: Handler, job: Job) -> tuple[tuple[Effect, ...], Job]:
    """Return the effects of a job, and the job as their checks see it: the inner operation's, if it wraps one."""
    found = handler.effects
    if callable(found) and not isinstance(found, Handler):
        found = found(job)
    if isinstance(found, Handler):
        return effects_of(found, job)
    match found:
        case (Handler() as inner, payload):
            text = msgspec.json.encode(payload).decode()
            return effects_of(inner, job.with_payload(payload, inner.read(text)))
    return _several(handler.name, found), job


def _several(handler: str, effects: Any) -> tuple[Effect, ...]:
    found = (effects,) if isinstance(effects, Effect) else effects
    if not isinstance(found, Sequence) or not all(isinstance(effect, Effect) for effect in found):
        raise ConfigurationError(f"handler {handler}: effects takes a list such as [Effect('ticket')], not {effects!r}")
    names = [effect.name for effect in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"handler {handler}: two of its effects are named {twice!r}")
    return tuple(found)
