"""Consent: what a session allows the handlers that ask for it, and what becomes of jobs that wait for a yes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, get_args

from standfast.errors import ConfigurationError, StoreUnavailable
from standfast.job import Claim
from standfast.lifecycle import JobRef, State, Transition
from standfast.outcome import NotEntered, Unconsented
from standfast.printable import printable
from standfast.rules import seconds as read_seconds
from standfast.settings import CONSENT_LIFETIME
from standfast.spine.accept import checked_name, user
from standfast.spine.apply import apply
from standfast.spine.ids import IDS
from standfast.spine.registry import Handler, Registry
from standfast.spine.run import Running
from standfast.store.store import Store
from standfast.wings.audit.words import Decision
from standfast.wings.consent import scripts as consents
from standfast.wings.consent.rules import release
from standfast.wings.consent.scripts import ConsentRequest, GrantRequest, RevokeRequest
from standfast.wings.consent.words import EVERY, MODES, NOBODY, TIMED, Attempt, Grant, Mode, Ruling, Use
from standfast.wings.policy.facts import UNKNOWN
from standfast.wings.policy.known_policy import KnownPolicy
from standfast.wings.policy.rulings import facts_at
from standfast.wings.policy.triage import outlived
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.queues.handler_names import Target, meant
from standfast.wings.records import reads
from standfast.wings.records.view import job_view, moments

ONCE = 86400.0
"""Seconds a grant for one job waits for it, unless it says otherwise."""
LONGEST_REASON = 2000
MOST_LISTED = 1000
BLANKET = Target(EVERY, EVERY)
UNDECLARED = "no process has declared {handler} so far: it counts once one does, if that is how it is written"

Grants = list[dict[str, Any]]  # inside the class, `list` is the verb


async def enter(store: Store, running: Running, handler: Handler, _job: object) -> Unconsented | NotEntered | None:
    """Ask for consent before a handler that needs it is entered; give how the attempt ends without it."""
    return await consented(store, running.claim) if handler.declaration.consent else None


async def consented(store: Store, claim: Claim) -> Unconsented | NotEntered | None:
    """Ask the grants of a job's session before its handler is entered; None lets it go on, and has spent what it takes.

    A store that does not answer is no yes.
    """
    asking = attempt_of(claim)
    try:
        ruling_: Ruling = await store.read(consents.judge(asking, store.now()))
        if ruling_.spends:
            ruling_ = await store.write(consents.enter, asking)
    except StoreUnavailable:
        return NotEntered("consent could not be checked")
    whose = _whose(asking.session)
    match ruling_.verdict:
        case "allowed":
            return None
        case "denied":
            return Unconsented(f"{claim.queue}/{claim.handler} is denied to {whose}", denied=True)
        case _:
            return Unconsented(f"no consent to {claim.queue}/{claim.handler} for {whose}")


def _whose(session: str) -> str:
    return f"session {session}" if session else "jobs without a session"


def attempt_of(claim: Claim) -> Attempt:
    """Word an attempt as the grants are asked about it."""
    session = claim.details.session or NOBODY
    return Attempt(session, claim.queue, claim.handler, claim.identity, first=claim.never_ran)


class Consent:
    """What sessions allow: `grant`, `check`, `revoke`, `list`, and `asks`, the jobs that wait for an answer."""

    def __init__(
        self,
        store: Store,
        ready: Callable[[], Awaitable[None]],
        registry: Registry,
        policy: KnownPolicy,
        *,
        lifetime: float = CONSENT_LIFETIME,
    ) -> None:
        self._store = store
        self._ready = ready
        self._registry = registry
        self._policy = policy
        self._lifetime = lifetime

    # --- for people

    async def grant(
        self,
        session: str | None,
        handler: Any,
        *,
        mode: Mode = "once",
        by: str | None = None,
        reason: str | None = None,
        seconds: float | str | timedelta | None = None,
        uses: int | None = None,
    ) -> dict[str, Any]:
        """Allow a session a handler, or deny it; what waits for that goes on, or dies. None is jobs without a session.

        `once` is for one job, its repeats included; `timed` for an hour, or `seconds`; `always` for as long as may be
        (30 days, or `[store] consent_lifetime`); `deny` is a no that wins. `"*"` is every handler, and then only for
        what the session does first-hand: it covers no retry and no replay. A name that no process ever declared is
        refused; written out as `queue/handler` it is taken, for a program that comes later, with a `warning`.
        """
        await self._ready()
        whose, target = _session(session), await self._target(handler)
        warning, now = await self._undeclared(handler, target), self._store.now()
        given = Grant(
            id=IDS.mint(now + self._store.skew()),
            session=whose,
            queue=target.queue,
            handler=target.handler,
            mode=_mode(mode),
            given_by=_checked_text("by", user() if by is None else by),
            reason=None if reason is None else _checked_text("reason", reason),
            granted_at=now,
            expires_at=now + self._span(mode, seconds),
            uses=_uses(mode, uses),
        )
        await self._store.write(consents.give, GrantRequest(given, _decision(given)))
        await self.sweep()
        return self._display(given) | ({} if warning is None else {"warning": warning})

    async def check(self, session: str | None, handler: Any) -> dict[str, Any]:
        """Say what a new job of this session would meet: `allowed`, `ask` or `denied`. Asking spends nothing."""
        await self._ready()
        whose, target = _session(session), await self._target(handler)
        attempt = Attempt(whose, target.queue, target.handler, "", first=True)
        ruling_ = await self._store.read(consents.judge(attempt, self._store.now()))
        about = {"session": whose or None, "handler": _handler_name(target)}
        return {"verdict": ruling_.verdict, **about, **({} if ruling_.grant is None else {"grant": ruling_.grant})}

    async def revoke(
        self, session: str | None, handler: Any = None, *, by: str | None = None, reason: str | None = None
    ) -> int:
        """Take back what a session was told about a handler, or all of it; give how many grants that were.

        What runs goes on. A job that had used the grant asks again before its next attempt.
        """
        await self._ready()
        whose = _session(session)
        target = None if handler is None else await self._target(handler)
        who = _checked_text("by", user() if by is None else by)
        detail = {"session": whose, **({} if target is None else {"handler": _handler_name(target)})}
        why = None if reason is None else _checked_text("reason", reason)
        decision = Decision(kind="revoke", by=who, reason=why, outcome="revoked", detail=detail)
        queue, name = (None, None) if target is None else target
        return await self._store.write(consents.take_back, RevokeRequest(whose, queue, name, decision))

    async def list(self, session: str | None = None) -> Grants:
        """List what counts now, the newest first: of one session, or of all."""
        await self._ready()
        whose = None if session is None else _session(session)
        return [
            self._display(each)
            for each in await self._store.read(consents.list_grants(whose, self._store.now(), MOST_LISTED))
        ]

    async def asks(self, session: str | None = None) -> Grants:
        """List the jobs that are held until consent is given, the oldest first: of one session, or of all."""
        await self._ready()
        moment = moments(self._store.skew())
        found = await self._store.read(consents.asks(None if session is None else _session(session), MOST_LISTED))
        return [
            {
                "job_id": each.id,
                "session": each.session or None,
                "handler": f"{each.queue}/{each.handler}",
                "asked_at": moment(each.asked_at),
            }
            for each in found
        ]

    # --- for workers

    async def sweep(self) -> int:
        """Release held jobs that got consent, and let those die that were denied. Any worker can."""
        went = 0
        while moves := [
            await self._settle(*each) for each in await self._store.read(consents.answered_requests(self._store.now()))
        ]:
            landed = sum(await self._store.write_all(apply, moves))
            if not landed:  # another worker was first with all of them
                return went
            went += landed
        return went

    async def _settle(self, ask: ConsentRequest, ruling_: Ruling) -> Transition:
        job = JobRef(ask.n, ask.token, ask.id, ask.queue, State.HELD, ask.gate)
        if ruling_.verdict == "allowed" and ruling_.grant is not None:
            uses = [Use(ruling_.grant, ask.job)] if ruling_.spends else []
            return release(job, by="consent", reason=f"consent {ruling_.grant}").carrying(*uses)
        record = await self._store.read(reads.job(ask.id, self._store.boot()))
        present = self._policy.policy_now(self._store)
        letter = record and job_view(record, now=self._store.now(), skew=self._store.skew())
        facts = facts_at(letter, self._store.now() + self._store.skew()) if letter else UNKNOWN
        message = f"{ask.queue}/{ask.handler} is denied to {_whose(ask.session)}"
        return outlived(job, "consent_denied", facts, present=present, message=message)

    # --- reading what was given

    async def _target(self, handler: Any) -> Target:
        if handler == EVERY:
            return BLANKET
        return await meant(handler, self._registry, lambda name: self._store.read(queue_scripts.places(name)))

    async def _undeclared(self, handler: Any, target: Target) -> str | None:
        """Say that no process has declared a handler; refuse one that is not even written out as queue/handler."""
        here = target == BLANKET or target.handler in self._registry.built_in or self._registry.find(*target)
        if here or target in await self._store.read(queue_scripts.places(_handler_name(target))):
            return None
        if handler == _handler_name(target):
            return UNDECLARED.format(handler=handler)
        raise ConfigurationError(
            f"no process has declared a handler {handler!r}; nothing was granted or denied: correct the name, start "
            "the program that declares it first, or write it out as queue/handler"
        )

    def _span(self, mode: str, given: float | str | timedelta | None) -> float:
        usual = {"once": ONCE, "timed": TIMED}.get(mode, self._lifetime)
        span = given.total_seconds() if isinstance(given, timedelta) else read_seconds(given)
        if span is None:
            return min(usual, self._lifetime)
        if isinstance(span, bool) or not isinstance(span, int | float) or not 0 < span <= self._lifetime:
            raise ConfigurationError(
                f"seconds must be more than 0 and at most {self._lifetime:g}, not {given!r}: no consent is for ever; "
                "nothing was granted"
            )
        return float(span)

    def _display(self, grant: Grant) -> dict[str, Any]:
        moment = moments(self._store.skew())
        return {
            "id": grant.id,
            "session": grant.session or None,
            "handler": EVERY if grant.blanket else f"{grant.queue}/{grant.handler}",
            "mode": grant.mode,
            "by": grant.given_by,
            "reason": grant.reason,
            "granted_at": moment(grant.granted_at),
            "expires_at": moment(grant.expires_at),
            "uses": grant.uses,
            "used": grant.used,
        }


def _decision(grant: Grant) -> Decision:
    denies = grant.mode == "deny"
    handler = EVERY if grant.blanket else f"{grant.queue}/{grant.handler}"
    detail = {"consent": grant.id, "session": grant.session, "handler": handler, "mode": grant.mode}
    lasts = {"seconds": round(grant.expires_at - grant.granted_at, 3), "uses": grant.uses}
    return Decision(
        kind="deny" if denies else "grant",
        by=grant.given_by,
        reason=grant.reason,
        outcome="denied" if denies else "granted",
        detail=detail | {name: value for name, value in lasts.items() if value is not None},
    )


def _handler_name(target: Target) -> str:
    return EVERY if target == BLANKET else f"{target.queue}/{target.handler}"


def _session(session: object) -> str:
    return NOBODY if session is None else checked_name("session", session)


def _mode(mode: object) -> Mode:
    if mode not in MODES:
        raise ConfigurationError.unknown("mode", mode, get_args(Mode))
    return mode


def _uses(mode: str, uses: object) -> int | None:
    """Read how many jobs a grant is good for: one, if it is for once; a no is never used up."""
    if uses is None:
        return 1 if mode == "once" else None
    if type(uses) is not int or not 1 <= uses < 2**31 or mode == "deny" or (mode == "once" and uses != 1):
        raise ConfigurationError(f"uses={uses!r} does not fit mode={mode!r}: give a whole number with timed or always")
    return uses


def _checked_text(what: str, given: object) -> str:
    if not isinstance(given, str) or not given.strip() or len(given) > LONGEST_REASON:
        raise ConfigurationError(f"{what} must be text of 1 to {LONGEST_REASON} characters, not {given!r:.80}")
    return printable(given.strip())
