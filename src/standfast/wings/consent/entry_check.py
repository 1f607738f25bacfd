"""Consent as an attempt meets it: checked before a handler that needs it is entered."""

from __future__ import annotations

from standfast.errors import StoreUnavailable
from standfast.job import Claim
from standfast.outcome import NotEntered, Unconsented
from standfast.spine.registry import Handler
from standfast.spine.run import Running
from standfast.store.store import Store
from standfast.wings.consent import scripts as consents
from standfast.wings.consent.words import NOBODY, Attempt, Ruling


async def enter(store: Store, running: Running, handler: Handler, _job: object) -> Unconsented | NotEntered | None:
    """Check consent before a handler that needs it is entered; return how the attempt ends without it."""
    return await consented(store, running.claim) if handler.declaration.consent else None


async def consented(store: Store, claim: Claim) -> Unconsented | NotEntered | None:
    """Check the grants of a job's session before its handler is entered. None lets it go on; any use needed is spent.

    A store that does not answer does not mean yes.
    """
    asking = attempt_of(claim)
    try:
        ruling_: Ruling = await store.read(consents.judge(asking, store.now()))
        if ruling_.spends:
            ruling_ = await store.write(consents.enter, asking)
    except StoreUnavailable:
        return NotEntered("consent could not be checked")
    whose = name_session(asking.session)
    match ruling_.verdict:
        case "allowed":
            return None
        case "denied":
            return Unconsented(f"{claim.queue}/{claim.handler} is denied to {whose}", denied=True)
        case _:
            return Unconsented(f"no consent to {claim.queue}/{claim.handler} for {whose}")


def name_session(session: str) -> str:
    """Name a session in a sentence."""
    return f"session {session}" if session else "jobs without a session"


def attempt_of(claim: Claim) -> Attempt:
    """Return an attempt in the form in which grants judge it."""
    session = claim.details.session or NOBODY
    return Attempt(session, claim.queue, claim.handler, claim.identity, first=claim.never_ran)
