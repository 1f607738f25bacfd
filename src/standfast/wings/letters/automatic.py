"""Automatic replays: letters that a rule postponed go back to work when they are due. Any worker can do this."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from standfast.lifecycle import LETTERS, Move, State, Transition
from standfast.spine.apply import apply
from standfast.store.store import Store
from standfast.views import JobView
from standfast.wings.audit.words import Decision
from standfast.wings.letters.scripts import Refusal, refuse
from standfast.wings.policy import scripts as policies
from standfast.wings.policy.rulings import Permit, Ruling, facts_at
from standfast.wings.policy.scripts import ReplayTurn
from standfast.wings.records.reads import JobRecord
from standfast.wings.records.view import job_view
from standfast.wings.redrives import redrive_reads
from standfast.wings.redrives.renewal import renew_while
from standfast.wings.replays.returning import LOOKS_AT_ONCE, Returning, died_under, ruled

BY = "policy"
"""Who asks for an automatic replay."""
TURN_FOR = 10.0
"""Seconds a worker has the turn, unless it renews it."""
STATUSES = {"deny": "denied", "require_approval": "pending_review"}
"""The replay status of a letter after its replay was not allowed."""


class Automatic:
    """Asks the policy once for each letter that is due, and replays it or leaves it until the policy changes."""

    def __init__(self, store: Store, decider: Returning, permit: Permit) -> None:
        self._store = store
        self._decider = decider
        self._permit = permit

    async def replay_due(self) -> int:
        """Replay the letters that are due, unless another worker does; return how many were replayed or found done."""
        turn = await self._store.write(policies.take_turn, ReplayTurn(TURN_FOR))
        if turn is None:
            return 0
        went, held = 0, [turn]
        async with renew_while(TURN_FOR / 4, partial(self._keep, held)):
            while number := await self._replay_some():
                went += number
        await self._store.write(policies.take_turn, ReplayTurn(0.0, held[-1]))
        return went

    async def _keep(self, held: list[float]) -> None:
        """Renew the turn, and note its new end: the process that knows that time holds the turn."""
        until = await self._store.write(policies.take_turn, ReplayTurn(TURN_FOR, held[-1]))
        if until is not None:
            held.append(until)

    async def _replay_some(self) -> int:
        numbers = await self._store.read(policies.due(self._store.now()))
        if not numbers:
            await self._store.write(policies.tidy, None)
            return 0
        records, _ = await self._store.read(redrive_reads.letters(numbers))
        busy = asyncio.Semaphore(LOOKS_AT_ONCE)
        letters = [record for record in records if State(record.row.state) in LETTERS]
        decided = await asyncio.gather(*(self._decide(record, busy) for record in letters))
        moves = [each for each in decided if isinstance(each, Transition)]
        refusals = [each for each in decided if isinstance(each, Refusal)]
        if refusals:
            await self._store.write_all(refuse, refusals)
        return sum(await self._store.write_all(apply, moves)) if moves else 0

    async def _decide(self, record: JobRecord, busy: asyncio.Semaphore) -> Transition | Refusal:
        now, skew = self._store.now(), self._store.skew()
        letter = job_view(record, now=now, skew=skew)
        why = "auto_replay" if letter.triage is None else f"auto_replay by {letter.triage.rule}"
        async with busy:
            move = await self._decider.way_back(record, letter, by=BY, reason=why, kind="auto_replay")
            if move.move == Move.RESOLVE:
                return move
            facts = msgspec.structs.replace(facts_at(letter, now + skew), automatic=True)
            ruling = await self._permit(facts)
        if ruling.permission.decision == "allow":
            return ruled(move, letter, ruling)
        return refusal(record, letter, ruling, by=BY, reason=why)


def refusal(record: JobRecord, letter: JobView, ruling: Ruling, *, by: str, reason: str | None) -> Refusal:
    """Return the refusal of a letter's replay, as it is stored and added to the audit chain."""
    permission, row = ruling.permission, record.row
    outcome = {"deny": "denied", "require_approval": "approval_required"}[permission.decision]
    detail = {"why": permission.why, **died_under(letter, ruling.snapshot)}
    decision = Decision(
        kind="deny",
        job=row.id,
        queue=row.queue,
        by=by,
        reason=reason,
        payload_sha256=letter.payload_sha256,
        rule=permission.rule,
        snapshot=ruling.snapshot,
        outcome=outcome,
        detail={name: value for name, value in detail.items() if value} or None,
    )
    return Refusal(row.n, row.token, row.id, row.queue, STATUSES[permission.decision], ruling.snapshot, decision)
