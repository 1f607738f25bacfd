"""What wings do around a handler, and in which order: effects are looked at before anybody is asked for consent."""

from __future__ import annotations

from functools import partial

from standfast.spine.run import HandlerHooks
from standfast.store.store import Store
from standfast.wings.consent.verbs import enter as ask_for_consent
from standfast.wings.effects.attempts import AttemptEffects, leave
from standfast.wings.effects.verbs import Verifier


def handler_hooks(store: Store, verifier: Verifier) -> HandlerHooks:
    """Put together what happens before and after the handlers of one process."""
    effects = AttemptEffects(store, verifier)
    return HandlerHooks(
        makes_job=effects.new_job,
        enters=(effects.enter, partial(ask_for_consent, store)),
        leaves=(leave,),
        looks_back=effects.look_back,
    )
