"""Consent: which handlers a session may run, if they ask for consent, and what happens to jobs that wait for it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, get_args

import msgspec

from standfast.errors import ConfigurationError, NotALetter, UnknownJob
from standfast.job import Details, higher
from standfast.lifecycle import JobRef, Move, State, Transition, asked_by
from standfast.printable import printable
from standfast.rules import seconds as read_seconds
from standfast.settings import CONSENT_LIFETIME
from standfast.spine.accept import checked_name, user
from standfast.spine.apply import apply
from standfast.spine.ids import IDS, id_of
from standfast.spine.registry import Handler, Registry
from standfast.store.store import Store
from standfast.views import JobView
from standfast.wings.audit.words import Decision
from standfast.wings.consent import scripts as consents
from standfast.wings.consent.entry_check import name_session
from standfast.wings.consent.rules import WITHDRAWN, release
from standfast.wings.consent.scripts import ConsentRequest, GrantRequest, RevokeRequest
from standfast.wings.consent.words import EVERY, MODES, NOBODY, TIMED, Attempt, Grant, Mode, Ruling, Use
from standfast.wings.effects.declared import effect_names
from standfast.wings.policy.facts import UNKNOWN
from standfast.wings.policy.known_policy import KnownPolicy
from standfast.wings.policy.rulings import facts_at
from standfast.wings.policy.triage import outlived
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.queues.handler_names import Target, meant
from standfast.wings.records import reads
from standfast.wings.records.view import cancelled_by, job_view, moments

ONCE = 86400.0
"""Seconds a grant for one job is valid, unless it says otherwise."""
LONGEST_REASON = 2000
MOST_LISTED = 1000
BLANKET = Target(EVERY, EVERY)
STILL_DENIED = (
    "this changes nothing yet: {handler} is denied to {session}, and a denial wins over every grant; take the denial "
    "back with `standfast consent revoke`, and grant it again"
)
UNDECLARED = "no process has declared {handler} so far: it counts once one does, if that is how it is written"

_details = msgspec.json.Decoder(Details).decode
Grants = list[dict[str, Any]]  # inside the class, `list` is the verb


class Consent:
    """What sessions allow: `grant`, `deny`, `check`, `revoke`, `list`; `asks` are the jobs that wait, `answer` one."""

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
        """Allow a session a handler, or deny it; jobs waiting for it go on, or die. None means jobs without a session.

        `once` is for one job, its repeats included; `timed` for an hour, or `seconds`; `always` for as long as is
        allowed (30 days, or `[store] consent_lifetime`); `deny` is a no that wins. `"*"` is every handler, but only for
        what the session does first-hand: it covers no retry and no replay. A name that no process ever declared is
        refused; written out as `queue/handler` it is accepted, for a program that comes later, with a `warning`.
        """
        await self._ready()
        whose, target = _session(session), await self._target(handler)
        warning = await self._undeclared(handler, target)
        given = self._new_grant(whose, target, mode, by=by, reason=reason, seconds=seconds, uses=uses)
        await self._store.write(consents.give, GrantRequest(given, _decision(given)))
        await self.sweep()
        if mode != "deny" and (await self._judged(whose, target)).verdict == "denied":
            warning = STILL_DENIED.format(session=name_session(whose), handler=_handler_name(target))
        return self._display(given) | ({} if warning is None else {"warning": warning})

    async def _judged(self, session: str, target: Target) -> Ruling:
        attempt = Attempt(session, target.queue, target.handler, "", first=True)
        return await self._store.read(consents.judge(attempt, self._store.now()))

    def _new_grant(
        self,
        session: str,
        target: Target,
        mode: Mode,
        *,
        by: str | None,
        reason: str | None,
        seconds: float | str | timedelta | None,
        uses: int | None = None,
    ) -> Grant:
        now = self._store.now()
        return Grant(
            id=IDS.mint(now + self._store.skew()),
            session=session,
            queue=target.queue,
            handler=target.handler,
            mode=_mode(mode),
            given_by=_checked_text("by", user() if by is None else by),
            reason=None if reason is None else _checked_text("reason", reason),
            granted_at=now,
            expires_at=now + self._span(mode, seconds),
            uses=_uses(mode, uses),
        )

    async def deny(
        self,
        session: str | None,
        handler: Any,
        *,
        by: str | None = None,
        reason: str | None = None,
        seconds: float | str | timedelta | None = None,
    ) -> dict[str, Any]:
        """Deny a session a handler, which wins over every grant: `grant` with `mode="deny"`."""
        return await self.grant(session, handler, mode="deny", by=by, reason=reason, seconds=seconds)

    async def answer(
        self,
        id: str,
        *,
        mode: Mode = "once",
        by: str | None = None,
        reason: str | None = None,
        seconds: float | str | timedelta | None = None,
        payload_sha256: str | None = None,
    ) -> dict[str, Any]:
        """Answer one job that waits for consent. `once` lets exactly this job run, its repeats included.

        `timed` and `always` are a grant to its session for this handler, for later jobs too. `deny` ends this job, and
        no other. With `payload_sha256`, the answer counts only if the payload is still the one that was shown.
        """
        await self._ready()
        ask, letter = await self._waiting(id, payload_sha256)
        target = Target(ask.queue, ask.handler)
        given = self._new_grant(ask.session, target, mode, by=by, reason=reason, seconds=seconds)
        decision = msgspec.structs.replace(
            _decision(given), job=letter.id, queue=letter.queue, payload_sha256=letter.payload_sha256
        )
        if mode == "deny":
            await self._deny_one(ask, decision)
            return {**self._display(given), "job_id": letter.id, "id": None, "expires_at": None}
        if mode == "once":
            given = msgspec.structs.replace(given, used=1)
        bound = ask.job if mode == "once" else None
        await self._store.write(consents.give, GrantRequest(given, decision, bound))
        await self.sweep()
        return {**self._display(given), "job_id": letter.id}

    async def withdraw(self, id: str, *, by: str) -> None:
        """End a job that waits for consent, for its own session: nobody needs to answer any more."""
        await self._ready()
        ask, letter = await self._waiting(id, None)
        ended = _held_job(ask).moved(Move.DISCARD, *asked_by(by, WITHDRAWN), attempt=letter.attempts)
        decision = Decision(kind="discard", by=by, reason=WITHDRAWN, outcome="withdrawn")
        named = {"job": letter.id, "queue": letter.queue, "payload_sha256": letter.payload_sha256}
        if not await self._store.write(apply, ended.carrying(msgspec.structs.replace(decision, **named))):
            raise NotALetter(f"job {ask.id} does not wait for consent any more; nothing was withdrawn")

    async def _waiting(self, id: str, payload_sha256: str | None) -> tuple[ConsentRequest, JobView]:
        """Find the request of a job; raise if it does not wait, or if its payload is not the one that was shown."""
        wanted = id_of(id)
        record = await self._store.read(reads.job(wanted, self._store.boot()))
        if record is None:
            raise UnknownJob.for_id(wanted)
        ask = await self._store.read(consents.ask_of(record.row.id))
        letter = job_view(record, now=self._store.now(), skew=self._store.skew())
        if ask is None:
            ended = cancelled_by(letter)
            why = "" if ended is None else f": cancelled {ended}"
            raise NotALetter(f"job {wanted} does not wait for consent{why}; nothing was granted or denied")
        if payload_sha256 not in (None, letter.payload_sha256):
            raise NotALetter(
                f"the payload of job {wanted} is not the one that was shown; nothing was granted or denied"
            )
        return ask, letter

    async def _deny_one(self, ask: ConsentRequest, decision: Decision) -> None:
        why = f": {decision.reason}" if decision.reason else ""
        message = f"{ask.queue}/{ask.handler} is denied to this job by {decision.by}{why}"
        ended = (await self._denied(ask, message)).carrying(decision)
        if not await self._store.write(apply, ended):
            raise NotALetter(f"job {ask.id} does not wait for consent any more; nothing was denied")

    async def check(self, session: str | None, handler: Any) -> dict[str, Any]:
        """Say what a new job of this session would get: `allowed`, `ask` or `denied`. Asking spends nothing."""
        await self._ready()
        whose, target = _session(session), await self._target(handler)
        ruling_ = await self._judged(whose, target)
        about = {"session": whose or None, "handler": _handler_name(target)}
        return {"verdict": ruling_.verdict, **about, **({} if ruling_.grant is None else {"grant": ruling_.grant})}

    async def revoke(
        self, session: str | None, handler: Any = None, *, by: str | None = None, reason: str | None = None
    ) -> int:
        """Revoke a session's answers about a handler, or all of them; return how many that was.

        Running jobs continue. A job that had used the grant asks again before its next attempt.
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
        """List the answers in force, the newest first: of one session, or of all."""
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
                "queue": each.queue,
                "handler": f"{each.queue}/{each.handler}",
                "requester": _details(each.details).requester,
                "risk": higher(_details(each.details).risk, each.risk),
                "asked_at": moment(each.asked_at),
            }
            for each in found
        ]

    def foreseen(self, queue: str, handler: str) -> dict[str, Any]:
        """Return what a handler would do, if this process has its code: its first sentences, and its effects."""
        found = self._registry.find(queue, handler)
        about = None if found is None else inspect.cleandoc(found.__doc__ or "")
        return {
            "handler": f"{queue}/{handler}",
            "about": (about or "").partition("\n\n")[0],
            "known": found is not None,
            "effects": () if found is None else effect_names(found) or _by_job(found),
        }

    # --- for workers

    async def sweep(self) -> int:
        """Release held jobs that got consent, and let those die that were denied. Any worker can do this."""
        went = 0
        after: consents.Place | None = consents.START
        while after is not None:
            batch = await self._store.read(consents.answered_requests(self._store.now(), after))
            moves = [await self._settle(*each) for each in batch.found]
            landed = sum(await self._store.write_all(apply, moves)) if moves else 0
            went += landed
            if not landed:  # other processes were first with all of these, or their grants have no use left
                after = batch.end
        return went

    async def _settle(self, ask: ConsentRequest, ruling_: Ruling) -> Transition:
        job = _held_job(ask)
        if ruling_.verdict == "allowed" and ruling_.grant is not None:
            uses = [Use(ruling_.grant, ask.job)] if ruling_.spends else []
            return release(job, by="consent", reason=f"consent {ruling_.grant}").carrying(*uses)
        return await self._denied(ask, f"{ask.queue}/{ask.handler} is denied to {name_session(ask.session)}")

    async def _denied(self, ask: ConsentRequest, message: str) -> Transition:
        """Decide that a job that waits for consent dies without it."""
        job = _held_job(ask)
        record = await self._store.read(reads.job(ask.id, self._store.boot()))
        present = self._policy.policy_now(self._store)
        letter = record and job_view(record, now=self._store.now(), skew=self._store.skew())
        facts = facts_at(letter, self._store.now() + self._store.skew()) if letter else UNKNOWN
        return outlived(job, "consent_denied", facts, present=present, message=message)

    # --- reading what was given

    async def _target(self, handler: Any) -> Target:
        if handler == EVERY:
            return BLANKET
        return await meant(handler, self._registry, lambda name: self._store.read(queue_scripts.places(name)))

    async def _undeclared(self, handler: Any, target: Target) -> str | None:
        """Word that no process has declared a handler; refuse one that is not written out as queue/handler."""
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


def _held_job(ask: ConsentRequest) -> JobRef:
    return JobRef(ask.n, ask.token, ask.id, ask.queue, State.HELD, ask.gate)


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


def _by_job(handler: Handler) -> tuple[str, ...]:
    return ("known for each job only",) if handler.has_effects else ()


def _handler_name(target: Target) -> str:
    return EVERY if target == BLANKET else f"{target.queue}/{target.handler}"


def _session(session: object) -> str:
    return NOBODY if session is None else checked_name("session", session)


def _mode(mode: object) -> Mode:
    if mode not in MODES:
        raise ConfigurationError.unknown("mode", mode, get_args(Mode))
    return mode


def _uses(mode: str, uses: object) -> int | None:
    """Read for how many jobs a grant is: one, if its mode is once; a denial is never used up."""
    if uses is None:
        return 1 if mode == "once" else None
    if type(uses) is not int or not 1 <= uses < 2**31 or mode == "deny" or (mode == "once" and uses != 1):
        raise ConfigurationError(f"uses={uses!r} does not fit mode={mode!r}: give a whole number with timed or always")
    return uses


def _checked_text(what: str, given: object) -> str:
    if not isinstance(given, str) or not given.strip() or len(given) > LONGEST_REASON:
        raise ConfigurationError(f"{what} must be text of 1 to {LONGEST_REASON} characters, not {given!r:.80}")
    return printable(given.strip())
