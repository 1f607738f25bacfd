"""What the wings do around a handler, and in which order: effects are verified before a person is asked for consent.

The child process starts last, so that no job holds one while it waits for an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from standfast.spine.registry import Handler
from standfast.spine.run import Call, HandlerHooks
from standfast.store.store import Store
from standfast.wings.consent.entry_check import enter as ask_for_consent
from standfast.wings.effects.attempts import AttemptEffects, leave
from standfast.wings.effects.verbs import Verifier
from standfast.wings.isolation.isolated_handler import enter as start_child
from standfast.wings.isolation.isolated_handler import take_back as take_back_child


def handler_hooks(
    store: Store, verifier: Verifier, middleware: Sequence[Callable[[Handler, Call], Call]] = ()
) -> HandlerHooks:
    """Combine what happens before and after the handlers of one process."""
    effects = AttemptEffects(store, verifier)
    return HandlerHooks(
        makes_job=effects.new_job,
        enters=(effects.enter, partial(ask_for_consent, store), start_child),
        leaves=leave,
        takes_back=take_back_child,
        middleware=middleware,
        looks_back=effects.look_back,
    )
