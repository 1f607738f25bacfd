"""Approvals and redrives as the store's users see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from standfast.rules import ReplayMode
from standfast.store.engine import Engine
from standfast.store.scripts import Write
from standfast.wings.approvals import scripts as approvals
from standfast.wings.approvals.scripts import Ask, Business, Said
from standfast.wings.approvals.words import TTL, Approval
from standfast.wings.jobs.reads import JobRecord
from standfast.wings.policy import scripts as policies
from standfast.wings.policy.scripts import Doings, Kept, Offer, Refusal, Turn
from standfast.wings.redrives import reads as redrive_reads
from standfast.wings.redrives import scripts as redrives
from standfast.wings.redrives.reads import Counts, Released
from standfast.wings.redrives.scripts import (
    Advance,
    Mark,
    Plan,
    Planned,
    RedriveRow,
    Start,
    Started,
    Steer,
    Take,
    Taken,
)
from standfast.wings.redrives.words import Tally

PATIENCE = 5.0
"""Seconds a caller waits for the store before it is told."""


class Governance:
    """The verbs about approvals and redrives."""

    def __init__(self, engine: Callable[[], Engine[Any]]) -> None:
        self._engine = engine
        self.approval_ttl = TTL
        """Seconds that an approval waits which is filed with a death."""

    async def _one(self, script: Write[Any, Any], item: Any) -> Any:
        [answer] = await self._engine().call(script, [item], seconds=PATIENCE)
        return answer

    async def ask(self, ask: Ask) -> str | None:
        """File an approval for a letter that is held; give the id of the one that waits. None if it is not held now."""
        return await self._one(approvals.ask, ask)  # type: ignore[no-any-return]

    async def say(self, said: Said) -> bool:
        """Write an answer down; tell whether it was the first."""
        return await self._one(approvals.say, said)  # type: ignore[no-any-return]

    async def let_go(self, said: Said) -> bool:
        """Approve a redrive, which goes on with it; tell whether that was the first answer."""
        return await self._one(redrives.carry_out, said)  # type: ignore[no-any-return]

    async def withdraw(self, said: Said) -> bool:
        """Turn a redrive down, which ends with it; tell whether that was the first answer."""
        return await self._one(redrives.withdraw, said)  # type: ignore[no-any-return]

    async def approval(self, approval_id: str) -> Approval | None:
        """Read one approval."""
        return await self._engine().read(approvals.one(approval_id))

    async def approvals(self, state: str | None, queues: Sequence[str] | None, limit: int) -> list[Approval]:
        """Read approvals, the newest first."""
        return await self._engine().read(approvals.listed(state, queues, limit))

    async def open_for(self, number: int) -> str | None:
        """Read which approval of a letter can still lead to a replay."""
        return await self._engine().read(approvals.open_for(number))

    async def due(self, now: float, before: float) -> list[Approval]:
        """Read approvals nobody answered in time, and those that were approved before and not used."""
        return await self._engine().read(approvals.due(now, before))

    async def business(self, now: float, before: float) -> Business:
        """Tell what may need somebody: redrives, asked consents, approvals, automatic replays."""
        return await self._engine().read(approvals.business(now, before))

    async def plan(self, plan: Plan) -> None:
        """Keep a plan."""
        await self._one(redrives.plan, plan)

    async def start(self, start: Start) -> Started:
        """Start a plan as it is, or tell what drifted."""
        return await self._one(redrives.start, start)  # type: ignore[no-any-return]

    async def take(self, take: Take) -> Taken | None:
        """Take up the next redrive that nobody else drives."""
        return await self._one(redrives.take, take)  # type: ignore[no-any-return]

    async def mark(self, marks: Sequence[Mark]) -> None:
        """Write down what became of letters of redrives."""
        await self._engine().call(redrives.mark, marks, seconds=PATIENCE)

    async def advance(self, advance: Advance) -> list[Planned]:
        """Read the next letters of a redrive; none if somebody else drives it by now."""
        return await self._one(redrives.advance, advance)  # type: ignore[no-any-return]

    async def steer(self, steer: Steer) -> bool:
        """Change where a redrive stands; tell whether it stood where it had to."""
        return await self._one(redrives.steer, steer)  # type: ignore[no-any-return]

    async def redrive(self, redrive: str) -> tuple[RedriveRow, Counts, Released] | None:
        """Read a redrive, how far it has come, and what is on its way."""
        return await self._engine().read(redrive_reads.one(redrive))

    async def redrives(self, limit: int) -> list[RedriveRow]:
        """Read the redrives that were started, the newest first."""
        return await self._engine().read(redrive_reads.listed(limit))

    async def halted(self) -> list[tuple[str, str]]:
        """Read the redrives that failures stopped, with why."""
        return await self._engine().read(redrive_reads.halted())

    async def tally(self, redrive: str, episode: int) -> Tally:
        """Read how far a redrive has come."""
        return await self._engine().read(redrive_reads.tally(redrive, episode))

    async def letters(self, numbers: Sequence[int]) -> tuple[list[JobRecord], set[int]]:
        """Read jobs by number, and the numbers of those whose threads went on without them."""
        return await self._engine().read(redrive_reads.letters(numbers))

    async def first_letter(self, redrive: str) -> JobRecord | None:
        """Read the first letter of a redrive that waits."""
        return await self._engine().read(redrive_reads.first_letter(redrive))

    # --- the policy

    def publish_blocking(self, offer: Offer) -> Kept:
        """Put a policy in force, or note what is wrong with it; give what is in force."""
        [kept] = self._engine().call(policies.publish, [offer], seconds=PATIENCE).result()
        return kept  # type: ignore[no-any-return]

    def policy_blocking(self) -> Kept:
        """Read the policy in force, for a caller without a loop."""
        return self._engine().read(policies.kept()).result()

    async def policy(self) -> Kept:
        """Read the policy in force."""
        return await self._engine().read(policies.kept())

    async def policy_unless(self, mark: str | None) -> Kept | None:
        """Read the policy in force, unless it is the one of this mark."""
        return await self._engine().read(policies.unless_known(mark))

    async def refuse(self, refusals: Sequence[Refusal]) -> list[bool]:
        """Write down that letters may not be replayed."""
        return await self._engine().call(policies.refuse, refusals, seconds=PATIENCE)  # type: ignore[no-any-return]

    async def replay_modes(self) -> dict[tuple[str, str], ReplayMode]:
        """Read the replay mode of every handler, by queue and name."""
        return await self._engine().read(policies.replay_modes())

    async def due_replays(self, now: float) -> list[int]:
        """Read the numbers of letters whose automatic replay is due."""
        return await self._engine().read(policies.due(now))

    async def take_turn(self, turn: Turn) -> float | None:
        """Have the turn to see to automatic replays; None if somebody else has it."""
        return await self._one(policies.take_turn, turn)  # type: ignore[no-any-return]

    async def tidy_replays(self) -> None:
        """Forget automatic replays that nobody waits for any more."""
        await self._one(policies.tidy, None)

    async def doings(self, now: float, *, letters_within: float, refusals_within: float) -> Doings:
        """Read how letters and refusals grow."""
        script = policies.doings(now, letters_within=letters_within, refusals_within=refusals_within)
        return await self._engine().read(script)
