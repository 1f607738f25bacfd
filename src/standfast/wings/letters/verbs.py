"""Dead letters: look at jobs that stopped, and put them back to work under policy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from standfast.errors import NotALetter, UnknownJob
from standfast.lifecycle import Move, Transition
from standfast.settings import APPROVAL_TTL
from standfast.spine.accept import checked_name, user
from standfast.spine.apply import apply
from standfast.spine.ids import id_of
from standfast.spine.payload import canonical
from standfast.spine.registry import Registry
from standfast.store.store import Store
from standfast.typed.letter_options import LetterFilter
from standfast.views import Heard, JobView
from standfast.wings.approvals.people import checked_actor, optional_reason, person
from standfast.wings.approvals.verbs import Approvals, GroupsOf, in_no_group
from standfast.wings.consent import scripts as consents
from standfast.wings.consent.rules import awaits_consent, not_replayed
from standfast.wings.effects.verbs import Verifier
from standfast.wings.letters import groups, letter_export, letter_import
from standfast.wings.letters import scripts as letters
from standfast.wings.letters.automatic import Automatic, refusal
from standfast.wings.letters.disposal import Disposal, letter_of, no_progress
from standfast.wings.letters.letter_export import Place
from standfast.wings.policy import scripts as policies
from standfast.wings.policy.permit import AGENT
from standfast.wings.policy.rulings import (
    Permit,
    PermitMany,
    Ruling,
    built_in,
    closed_to_agents,
    facts_at,
    for_agent,
    one_by_one,
)
from standfast.wings.records import listing, reads
from standfast.wings.records.letter_filter import letter_filter
from standfast.wings.records.reads import JobRecord
from standfast.wings.records.view import Page, job_view, page, whole_page
from standfast.wings.redrives.verbs import PLANS, Redrive, Redrives
from standfast.wings.replays.returning import Returning, resolution, ruled, told

Groups = list[dict[str, Any]]  # inside the class, `list` is the verb
NOT_GIVEN: Any = object()
"""Stands for a missing result: None is a result."""
TRIES = 5
"""How often a replay is decided, if the policy changes each time before the decision is written."""


class DeadLetters:
    """Jobs that stopped and need a person. Reading (`list`, `get`, `groups`, `plan`) changes nothing.

    `replay`, `redrive` and `resolve` settle letters; `amend`, `quarantine` and `discard` change what becomes of one;
    `export` and `import_` carry them to another store, and `purge` deletes them. Each takes who wants it, and why.
    """

    def __init__(
        self,
        store: Store,
        ready: Callable[[], Awaitable[None]],
        registry: Registry | None = None,
        verifier: Verifier | None = None,
        *,
        permit: Permit = built_in,
        permit_many: PermitMany | None = None,
        groups_of: GroupsOf = in_no_group,
        ttl: float = APPROVAL_TTL,
    ) -> None:
        self._store = store
        self._ready = ready
        self._permit = permit
        self._decider = Returning(store, registry, verifier)
        self._disposal = Disposal(store, registry or Registry())
        self.approvals = Approvals(store, ready, self._decider, PLANS, permit=permit, groups_of=groups_of, ttl=ttl)
        self.redrives = Redrives(store, ready, self._decider, permit=permit_many or one_by_one(permit), ttl=ttl)
        self.automatic = Automatic(store, self._decider, permit)

    async def list(
        self,
        filter: LetterFilter | None = None,
        *,
        limit: int = 50,
        cursor: int | None = None,
        queues: Sequence[str] | None = None,
    ) -> Page:
        """List letters, newest first; the page's `next_cursor` leads to the older ones. `queues` limits it to these.

        A page that had to skip many letters ends early: it may be short, even empty, and still have a `next_cursor`.
        """
        await self._ready()
        wanted = letter_filter(filter or {}, self._store.now(), whole_page(limit), cursor, skew=self._store.skew())
        reached = None if queues is None else msgspec.json.encode([*queues]).decode()
        records, end = await self._store.read(listing.letters(wanted._replace(queues=reached)))
        found = page(records, limit, now=self._store.now(), skew=self._store.skew())
        found.next_cursor = found.next_cursor or end
        return found

    async def get(self, id: str) -> JobView:
        """Return one letter, whole."""
        _, letter = await self._letter(id)
        return letter

    async def replay(
        self, id: str, *, by: str, reason: str | None = None, session: str | None = None
    ) -> dict[str, Any]:
        """Put a letter back to work: same id, key and payload, in a new round. Concurrent requests replay it once.

        First its effects are verified, then the policy is asked. The letter is `resolved` at once if its handler is
        registered here and every effect exists; otherwise, if the policy allows it, it is `replayed`, and the worker
        looks before it runs. A letter that waits for consent is not replayed: the answer is `consent_required`, with
        what to do. With `session`, an agent asks: a `manual` letter, or one that may have landed, then waits for a
        person's approval whatever the policy allows, and one that is quarantined or was refused consent is `denied`.
        """
        by, reason = person(by), optional_reason(reason)
        agent = session is not None and bool(checked_name("session", session))
        for _ in range(TRIES):
            record, letter = await self._letter(id)
            answer = await self._replay(record, letter, by=by, reason=reason, agent=agent)
            if answer is not None:
                return answer
            await self._check_unmoved(record)
        raise NotALetter(
            f"the policy kept changing while the replay of job {id_of(id)} was decided; nothing was replayed: ask again"
        )

    async def _replay(
        self, record: JobRecord, letter: JobView, *, by: str, reason: str | None, agent: bool
    ) -> dict[str, Any] | None:
        """Decide about a letter as it is now; return None if the decision could not be written."""
        if awaits_consent(letter) and await self._store.read(consents.asks_consent(letter.queue, letter.handler)):
            return not_replayed(letter)
        closed = closed_to_agents(letter) if agent else None
        if closed is not None:  # nothing is written: the letter stays as the person left it
            return {"outcome": "denied", "rule": AGENT, "why": closed}
        decided = await self._decider.way_back(record, letter, by=by, reason=reason)
        if decided.move == Move.RESOLVE:
            await self._apply(decided)
            return told(decided, by)
        ruling = await self._ruling(record, letter, agent=agent)
        permission = ruling.permission
        if permission.decision == "deny":
            await self._store.write(letters.refuse, refusal(record, letter, ruling, by=by, reason=reason))
            return {"outcome": "denied", "rule": permission.rule, "why": permission.why}
        if permission.decision == "require_approval":
            approval = await self.approvals.file(record, letter, ruling, by=by, reason=reason)
            return {
                "outcome": "approval_required",
                "approval": approval,
                "rule": permission.rule,
                "why": permission.why,
            }
        landed = await self._store.write(apply, ruled(decided, letter, ruling))
        return {"rule": permission.rule, **told(decided, by)} if landed else None

    async def _ruling(self, record: JobRecord, letter: JobView, *, agent: bool) -> Ruling:
        """Ask the policy; if an agent asks, a person decides about work that might be done twice."""
        facts = facts_at(letter, self._store.now() + self._store.skew())
        if facts.demand is not None and await self.approvals.asked_by_agent(record):
            facts = msgspec.structs.replace(facts, demand=None)  # an agent's request is no rule: it binds no person
        permission = await self._permit(facts)
        return for_agent(permission, letter, await self._store.read(policies.replay_modes())) if agent else permission

    async def _check_unmoved(self, record: JobRecord) -> None:
        """Raise if a letter has changed. If it has not, the policy changed, and is asked again."""
        present = await self._store.read(reads.job(record.row.id, self._store.boot()))
        if present is None or (present.row.token, present.row.state) != (record.row.token, record.row.state):
            raise NotALetter(f"job {record.row.id} is no longer a letter: another decision came first")

    async def plan(self, filter: LetterFilter | None = None, *, session: str | None = None) -> dict[str, Any]:
        """Predict from the store what a redrive of these letters would do; its `token` carries out exactly that.

        With `session`, an agent plans: `manual` letters, and those that may have landed, need a person's approval.
        """
        return await self.redrives.plan(filter, agent=session is not None)

    async def redrive(
        self,
        token: str,
        *,
        by: str,
        reason: str | None = None,
        rate: str | float | None = None,
        canary: int = 0,
        halt_on: float | None = None,
        session: str | None = None,
    ) -> Redrive:
        """Carry a plan out: `canary` letters first, then the rest at a `rate`, until a share of `halt_on` fails again.

        It is on disk when this returns, and goes on in any worker, whatever becomes of this process. With `session`, an
        agent asks: it can carry out only plans that were made for an agent.
        """
        course: dict[str, Any] = {"rate": rate, "canary": canary, "halt_on": halt_on}
        return await self.redrives.start(token, by=by, reason=reason, agent=session is not None, **course)

    async def resolve(self, id: str, *, by: str, reason: str, result: Any = NOT_GIVEN) -> JobView:
        """End a letter whose effect exists: its checks decide, or, with `result=`, you vouch for it.

        Raises NotVerified if a check finds an effect missing, or cannot tell; the letter stays as it is.
        """
        actor = checked_actor(by, reason)
        record, letter = await self._letter(id)
        if result is not NOT_GIVEN:
            decided = resolution(record, letter, None, result=canonical(result), **actor)
        else:
            decided = resolution(record, letter, await self._decider.verified(record), **actor)
        await self._apply(decided)
        return await self._view(id)

    async def groups(self, filter: LetterFilter | None = None) -> Groups:
        """Group letters by cause, the largest group first: `count`, `sample`, `first_seen`, `last_seen`.

        `fingerprint` is also a filter: one plan, purge or export for the whole group. `regressed` counts letters that
        were replayed and stopped for the same cause again.
        """
        await self._ready()
        return await groups.groups(self._store, filter or {})

    async def amend(self, id: str, payload: Any, *, by: str, reason: str) -> JobView:
        """Change a letter's payload; only this can. It passes every check of a new one; nothing runs automatically.

        The job keeps its id, and its old key still answers with it; receivers get the key of a new generation.
        Approvals of the old payload are void. Raises NotVerified while an effect may exist that is not recorded: after
        the change, its check would look for another key. `resolve` verifies it.
        """
        await self._ready()
        await self._disposal.amend(id, payload, by, reason)
        return await self._view(id)

    async def discard(self, id: str, *, by: str, reason: str) -> JobView:
        """End a letter that is no longer wanted: it is cancelled, and pruned like a finished job."""
        await self._ready()
        await self._disposal.discard(id, by, reason)
        return await self._view(id)

    async def quarantine(self, id: str, *, by: str, reason: str, owner: str | None = None) -> JobView:
        """Set a letter apart for its `owner` to look at: it is not replayed automatically; its approvals are void."""
        await self._ready()
        await self._disposal.quarantine(id, by, reason, owner)
        return await self._view(id)

    async def purge(
        self,
        filter: LetterFilter | None = None,
        *,
        by: str,
        reason: str | None = None,
        confirm: int | None = None,
        progress: Heard = no_progress,
    ) -> dict[str, int]:
        """Delete dead and discarded letters for good; held ones stay. None goes unless `confirm` is how many match.

        A `reason` is required only with `confirm`. More than a thousand are deleted in several transactions; `progress`
        is called with how far it is.
        """
        await self._ready()
        return await self._disposal.purge(filter or {}, by, reason, confirm, progress)

    async def export(
        self,
        to: Place,
        filter: LetterFilter | None = None,
        *,
        by: str | None = None,
        reason: str | None = None,
        progress: Heard = no_progress,
    ) -> dict[str, Any]:
        """Write letters to a new file or an open one, one JSON line each, whole: payloads and headers as they are sent.

        Only its owner may read the file: values that are hidden elsewhere are readable in it.
        """
        await self._ready()
        by = user() if by is None else by
        return await letter_export.export(self._store, to, filter or {}, by=by, reason=reason, progress=progress)

    async def import_(self, source: Place, *, by: str, reason: str, progress: Heard = no_progress) -> dict[str, int]:
        """Import letters that `export` wrote, as dead letters with their own ids: a file read twice stores each once.

        A letter whose key belongs to another job here is stored without it, and counted as `without_key`.
        """
        await self._ready()
        return await letter_import.bring_in(self._store, source, by=by, reason=reason, progress=progress)

    async def _apply(self, decided: Transition) -> None:
        landed = await self._store.write(apply, decided)
        if not landed:
            raise NotALetter(f"job {decided.id} is no longer a letter: another decision came first")

    async def _view(self, id: str) -> JobView:
        record = await self._store.read(reads.job(id_of(id), self._store.boot()))
        if record is None:
            raise UnknownJob.for_id(id_of(id))
        return job_view(record, now=self._store.now(), skew=self._store.skew())

    async def _letter(self, id: str) -> tuple[JobRecord, JobView]:
        await self._ready()
        return await letter_of(self._store, id)
