"""Approvals: a person other than the requester says yes or no, once, to exactly what was shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from standfast.errors import ApprovalRefused, ConfigurationError, NotALetter, UnknownRequest
from standfast.lifecycle import LETTERS, State
from standfast.settings import APPROVAL_TTL
from standfast.spine.apply import apply
from standfast.spine.ids import IDS, id_of
from standfast.store.scripts import Write
from standfast.store.steps import Script
from standfast.store.store import Store
from standfast.views import JobView
from standfast.wings.approvals import rules
from standfast.wings.approvals import scripts as approvals
from standfast.wings.approvals.people import checked_reason, person
from standfast.wings.approvals.scripts import ApprovalAnswer, ApprovalRequest
from standfast.wings.approvals.words import Answer, Approval, ApprovalState, Bound, Filing, bound_to
from standfast.wings.audit.words import Decision
from standfast.wings.policy.permit import AGENT
from standfast.wings.policy.rulings import Permit, Ruling, built_in, facts_at
from standfast.wings.records import reads
from standfast.wings.records.reads import JobRecord
from standfast.wings.records.view import job_view, moments, one_of
from standfast.wings.replays.returning import Returning, ruled, standing, told, wanted_by
from standfast.wings.tokens import scripts as tokens

LEAVE_TO_APPROVER = 10.0
"""Seconds after a yes until any worker performs it, if the approver's own process has not done so."""
GONE = "the letter is gone"
SHOWN = ("id", "job", "redrive", "queue", "state", "asked_by", "reason", "rule", "answered_by", "answer")
TIMES = ("asked_at", "expires_at", "answered_at")


GroupsOf = Callable[[str], Awaitable[Sequence[str]]]
"""Reads the groups of a person from the store."""


async def in_no_group(_person: str) -> Sequence[str]:
    """Return no groups: for stores where none are published."""
    return ()


class Plans(NamedTuple):
    """What answers do to a redrive's plan: passed in, because redrives are a layer above approvals."""

    carry_out: Write[ApprovalAnswer, bool]
    withdraw: Write[ApprovalAnswer, bool]
    first_letter: Callable[[str], Script[JobRecord | None]]


class Case(msgspec.Struct, frozen=True):
    """A letter under an approval, with what the policy says about it now."""

    record: JobRecord
    letter: JobView
    ruling: Ruling

    @property
    def bound(self) -> Bound:
        """What an approval of the letter would be bound to now."""
        row = self.record.row
        return bound_to(row.queue, row.handler, row.payload, row.generation, self.ruling.snapshot)


class Listed(list[dict[str, Any]]):
    """Approvals, the newest first."""

    more: bool = False


class Approvals:
    """What waits for a person's answer: `list`, `approve`, `deny`. The first answer counts; a repeat gets it again."""

    def __init__(
        self,
        store: Store,
        ready: Callable[[], Awaitable[None]],
        decider: Returning,
        plans: Plans,
        *,
        permit: Permit = built_in,
        groups_of: GroupsOf = in_no_group,
        ttl: float = APPROVAL_TTL,
    ) -> None:
        self._store = store
        self._ready = ready
        self._decider = decider
        self._plans = plans
        self._permit = permit
        self._groups_of = groups_of
        self._ttl = ttl

    # --- for people

    async def list(
        self, state: str | None = "pending", *, queues: Sequence[str] | None = None, limit: int = 100
    ) -> Listed:
        """List approvals, the newest first: pending ones, those of another state, or with None all.

        With `queues`, only those of letters of these; a redrive belongs to no single queue. `more` says whether there
        are more.
        """
        await self._ready()
        found = await self._store.read(
            approvals.list_approvals(one_of("state", state, ApprovalState), queues, limit + 1)
        )
        listed = Listed(self._display(each) for each in found[:limit])
        listed.more = len(found) > limit
        return listed

    async def of(self, job: str) -> str | None:
        """Return the id of the approval that a letter waits for; None if it waits for none."""
        await self._ready()
        record = await self._store.read(reads.job(id_of(job), self._store.boot()))
        return None if record is None else await self._store.read(approvals.open_for(record.row.n))

    async def asked_by_agent(self, record: JobRecord) -> bool:
        """Return whether a letter waits for an approval that no policy rule requires, only because an agent asked."""
        waiting = await self._store.read(approvals.open_for(record.row.n))
        found = None if waiting is None else await self._store.read(approvals.one(waiting))
        return found is not None and found.rule == AGENT

    async def get(self, id: str) -> dict[str, Any]:
        """Return one approval."""
        return self._display(await self._approval(id))

    async def approve(
        self, id: str, *, by: str, groups: Iterable[str] = (), token: str | None = None
    ) -> dict[str, Any]:
        """Approve, and perform the replay. The policy is asked again first, and its no wins.

        Neither the asker nor a requester of the work may approve. The groups of `by` are those that `[groups]` in the
        store gives them; `groups` adds those that your application knows. `token` is the id of the token that `by`
        showed: one that the asker or a requester made after asking counts as their own.
        """
        by = person(by)
        while True:
            approval = await self._approval(id)
            if rules.is_repeated_answer(approval, "approved"):
                return await self._carried_out(approval)
            await self._check(approval, by, groups, token)
            if approval.redrive is not None:
                return await self._approve_redrive(approval, by)
            answer = await self._approve_letter(approval, by)
            if answer is not None:
                return answer

    async def deny(self, id: str, *, by: str, reason: str) -> dict[str, Any]:
        """Deny: the letter stays dead, the redrive ends. This needs no group: everyone who may see it may deny it."""
        by, reason = person(by), checked_reason(reason)
        approval = await self._approval(id)
        if rules.is_repeated_answer(approval, "denied"):
            return _outcome(approval, "denied", approval.answer or "")
        self._check_open(approval)
        answer = Answer(approval.id, ApprovalState.PENDING, ApprovalState.DENIED, by, reason)
        if not await self._turn_down(approval, answer, _decision(approval, "deny", "denied", by=by, reason=reason)):
            return await self.deny(id, by=by, reason=reason)  # another answer was first: return it, or refuse
        return _outcome(approval, "denied", reason)

    # --- for replays and workers

    async def file(self, record: JobRecord, letter: JobView, ruling: Ruling, *, by: str, reason: str | None) -> str:
        """Hold a letter until a person answers; return the approval's id. Asking again returns the same one."""
        filing = self.filing(record, letter, ruling, by=by, reason=reason)
        move = rules.hold_for_approval(standing(record.row), filing, record.row.attempts)
        if move is not None and await self._store.write(apply, move):
            return await self._store.read(approvals.open_for(record.row.n)) or filing.id
        found = await self._store.read(reads.job(letter.id, self._store.boot()))
        if found is None or State(found.row.state) not in LETTERS:
            raise NotALetter(f"job {letter.id} is no longer a letter: another decision came first")
        row = found.row
        waiting = await self._store.write(approvals.ask, ApprovalRequest(row.n, row.token, row.id, row.queue, filing))
        if waiting is None:
            return await self.file(found, letter, ruling, by=by, reason=reason)
        return waiting

    def filing(
        self, record: JobRecord, letter: JobView, ruling: Ruling, *, by: str | None, reason: str | None
    ) -> Filing:
        """Return an approval to file; without `by` the policy itself asks for it when a letter dies."""
        return Filing(
            id=IDS.mint(self._store.now() + self._store.skew()),
            bound=Case(record, letter, ruling).bound,
            asked_by=by,
            reason=reason,
            requesters=wanted_by(record),
            groups=ruling.permission.groups,
            rule=ruling.permission.rule,
            ttl=self._ttl,
        )

    async def sweep(self) -> None:
        """Expire approvals not answered in time, and perform approved ones that did not start. Any worker can."""
        await self._ready()
        now = self._store.now()
        for approval in await self._store.read(approvals.due(now, now - LEAVE_TO_APPROVER)):
            if approval.state == ApprovalState.APPROVED:
                await self._carried_out(approval)
            else:
                answer = Answer(
                    approval.id, ApprovalState.PENDING, ApprovalState.EXPIRED, reason="not answered in time"
                )
                await self._turn_down(approval, answer, _decision(approval, "deny", "expired"))

    # --- answering

    def _check_open(self, approval: Approval) -> None:
        why = rules.cannot_answer(approval, self._store.now())
        if why is not None:
            raise ApprovalRefused(f"approval {approval.id} cannot be answered: {why}")

    async def _check(self, approval: Approval, by: str, groups: Iterable[str], token: str | None) -> None:
        self._check_open(approval)
        why = rules.may_not_approve(approval, by, {*_texts(groups), *await self._groups_of(by)})
        if why is None and token is not None:
            made = await self._store.read(tokens.made_since(token, approval.asked_at))
            why = rules.made_for_the_occasion(approval, [each.created_by for each in made])
        if why is not None:
            raise ApprovalRefused(f"approval {approval.id} was not granted: {why}")

    async def _approve_letter(self, approval: Approval, by: str) -> dict[str, Any] | None:
        """Approve a letter's replay and perform it; None if it was answered meanwhile."""
        case = await self._case(approval)
        if case is None:
            gone = Answer(approval.id, ApprovalState.PENDING, ApprovalState.VOID, reason=GONE)
            if not await self._store.write(approvals.answer, ApprovalAnswer(gone)):
                return None  # another approval was carried out just now
            raise ApprovalRefused(f"approval {approval.id} cannot be answered: {GONE}")
        against = await self._against(approval, case, by)
        if against is not None:
            return against
        answer = Answer(approval.id, ApprovalState.PENDING, ApprovalState.APPROVED, by)
        if not await self._store.write(
            approvals.answer, ApprovalAnswer(answer, _decision(approval, "approve", "approved", by=by))
        ):
            return None
        return await self._perform(approval, case, by)

    async def _against(self, approval: Approval, case: Case, by: str | None) -> dict[str, Any] | None:
        """Turn down an approval that no longer fits, or that the policy now denies; return None if all is well."""
        permission = case.ruling.permission
        changes = rules.changed(approval.bound, case.bound)
        if changes:
            return await self._made_void(approval, rules.void_because(changes), by)
        if rules.missing_groups(approval, permission.groups):
            return await self._made_void(approval, rules.wants_more(approval, permission.groups), by)
        if permission.decision != "deny":
            return None
        answer = Answer(
            approval.id, approval.state, ApprovalState.DENIED, "policy", f"{permission.rule}: {permission.why}"
        )
        decision = _decision(approval, "deny", "denied", by=by, rule=permission.rule)
        if not await self._turn_down(approval, answer, decision):
            return await self._outcome(approval.id)
        return {**_outcome(approval, "denied", permission.why), "rule": permission.rule}

    async def _made_void(self, approval: Approval, why: str, by: str | None) -> dict[str, Any]:
        """Void an approval, and tell its approver why."""
        answer = Answer(approval.id, approval.state, ApprovalState.VOID, reason=why)
        if not await self._turn_down(approval, answer, _decision(approval, "deny", "void", by=by, reason=why)):
            return await self._outcome(approval.id)
        if by is not None:
            advice = "nothing was replayed: look at the letter, then ask again"
            raise ApprovalRefused(f"approval {approval.id} is void: {why}; {advice}")
        return _outcome(approval, "void", why)

    async def _outcome(self, id: str) -> dict[str, Any]:
        """Return the state of an approval that was answered meanwhile."""
        return await self._carried_out(await self._approval(id))

    async def _carried_out(self, approval: Approval) -> dict[str, Any]:
        """Return an approval that was given; perform what it allows if that has not happened."""
        if approval.state == ApprovalState.USED:
            done = "replayed" if approval.redrive is None else "started"
            return _outcome(approval, done, f"{approval.answered_by} approved it before")
        if approval.state != ApprovalState.APPROVED:
            return _outcome(approval, str(approval.state), approval.answer or "")
        case = await self._case(approval)
        if case is None:  # the letter is gone for good, or the approver's own process has just performed it
            await self._store.write(
                approvals.answer,
                ApprovalAnswer(Answer(approval.id, ApprovalState.APPROVED, ApprovalState.VOID, reason=GONE)),
            )
            return await self._outcome(approval.id)
        by = approval.answered_by or ""
        return await self._against(approval, case, None) or await self._perform(approval, case, by)

    async def _perform(self, approval: Approval, case: Case, by: str) -> dict[str, Any]:
        why = f"approved; asked for by {approval.asked_by or 'the policy'}"
        reason = f"{why}: {approval.reason}" if approval.reason else why
        decision = await self._decider.way_back(case.record, case.letter, by=by, reason=reason)
        move = ruled(decision, case.letter, case.ruling)
        answers = Answer(approval.id, ApprovalState.APPROVED, ApprovalState.USED)
        landed = await self._store.write(apply, move.carrying(answers))
        if not landed:
            present = await self._approval(approval.id)
            if present.state == ApprovalState.APPROVED and present.job is not None:
                return await self._carried_out(present)  # the policy changed meanwhile: ask it again
            if present.state != ApprovalState.USED:
                raise NotALetter(f"job {case.letter.id} is no longer a letter: another decision came first")
        return {"approval": approval.id, "job": case.letter.id, "rule": case.ruling.permission.rule, **told(move, by)}

    async def _turn_down(self, approval: Approval, answer: Answer, decision: Decision) -> bool:
        """Answer with a no that ends the letter or the redrive; return whether it was the first answer."""
        if approval.redrive is not None:
            return await self._store.write(self._plans.withdraw, ApprovalAnswer(answer, decision))
        record = await self._store.read(reads.job(approval.job or "", self._store.boot()))
        attempts = 0 if record is None else record.row.attempts
        move = None if record is None else rules.deny_held(standing(record.row), answer, decision, attempts)
        if move is None:
            return await self._store.write(approvals.answer, ApprovalAnswer(answer, decision))
        return await self._store.write(apply, move)

    async def _approve_redrive(self, approval: Approval, by: str) -> dict[str, Any]:
        if await self._snapshot(approval) != approval.bound.snapshot:
            why = rules.void_because([rules.WORDS["snapshot"]])
            void = Answer(approval.id, ApprovalState.PENDING, ApprovalState.VOID, reason=why)
            await self._store.write(
                self._plans.withdraw, ApprovalAnswer(void, _decision(approval, "deny", "void", by=by, reason=why))
            )
            raise ApprovalRefused(f"approval {approval.id} is void: {why}; nothing was replayed: plan again")
        answer = Answer(approval.id, ApprovalState.PENDING, ApprovalState.USED, by)
        first = await self._store.write(
            self._plans.carry_out, ApprovalAnswer(answer, _decision(approval, "approve", "approved", by=by))
        )
        if not first:
            return await self.approve(approval.id, by=by)
        return _outcome(approval, "started", f"approved by {by}")

    async def _snapshot(self, approval: Approval) -> str:
        """Return the snapshot of the policy in force, by asking about the first letter of the redrive."""
        record = await self._store.read(self._plans.first_letter(approval.redrive or ""))
        if record is None:
            return approval.bound.snapshot
        letter = job_view(record, now=self._store.now(), skew=self._store.skew())
        return (await self._permit(facts_at(letter, self._store.now() + self._store.skew()))).snapshot

    # --- reading

    async def _approval(self, id: str) -> Approval:
        await self._ready()
        if not isinstance(id, str):
            raise ConfigurationError(f"an approval is named by its id, a text, not by {id!r}")
        found = await self._store.read(approvals.one(id))
        if found is None:
            raise UnknownRequest.for_id("approval", id)
        return found

    async def _case(self, approval: Approval) -> Case | None:
        """Read the letter of an approval, and ask the policy about it anew; None if it is no longer a letter."""
        record = await self._store.read(reads.job(approval.job or "", self._store.boot()))
        if record is None or State(record.row.state) not in LETTERS:
            return None
        letter = job_view(record, now=self._store.now(), skew=self._store.skew())
        return Case(record, letter, await self._permit(facts_at(letter, self._store.now() + self._store.skew())))

    def _display(self, approval: Approval) -> dict[str, Any]:
        moment = moments(self._store.skew())
        return {
            **{name: getattr(approval, name) for name in SHOWN},
            "state": str(approval.state),
            "approver_groups": list(approval.groups),
            **msgspec.to_builtins(approval.bound),
            **{name: moment(getattr(approval, name)) for name in TIMES},
        }


def _outcome(approval: Approval, outcome: str, why: str) -> dict[str, Any]:
    about = {"job": approval.job} if approval.redrive is None else {"redrive": approval.redrive}
    return {"outcome": outcome, "approval": approval.id, **about, "why": why}


def _decision(approval: Approval, kind: Any, outcome: str, **said: Any) -> Decision:
    bound = approval.bound
    about = {"approval": approval.id, "asked_by": approval.asked_by, "redrive": approval.redrive}
    what = {"payload_sha256": bound.payload_sha256, "snapshot": bound.snapshot, "rule": approval.rule, **said}
    detail = {name: value for name, value in about.items() if value is not None}
    return Decision(kind=kind, outcome=outcome, job=approval.job, queue=approval.queue, detail=detail, **what)


def _texts(groups: Iterable[str]) -> list[str]:
    if isinstance(groups, str):
        raise ConfigurationError(f"groups= takes several names, as in groups=[{groups!r}]")
    return list(groups)
