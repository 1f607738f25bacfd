"""Redrives: hundreds of letters as one decision. Plan it, try a few, let the rest follow; failures halt it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec

from standfast.errors import ConfigurationError, PlanDrifted, PolicyDenied, UnknownRequest
from standfast.lifecycle import Move, Transition
from standfast.settings import APPROVAL_TTL
from standfast.spine.apply import apply
from standfast.spine.ids import IDS
from standfast.store.store import Store
from standfast.typed.letter_options import LetterFilter
from standfast.views import JobView
from standfast.wings.approvals.people import optional_reason, person
from standfast.wings.approvals.verbs import Plans
from standfast.wings.approvals.words import Filing, bound_to_plan
from standfast.wings.audit.words import Decision
from standfast.wings.consent.rules import awaits_consent
from standfast.wings.policy import scripts as policies
from standfast.wings.policy.rulings import PermitMany, facts_at, for_agent
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.records import listing, reads
from standfast.wings.records.letter_filter import letter_filter
from standfast.wings.records.reads import JobRecord
from standfast.wings.records.view import job_view, moments
from standfast.wings.redrives import plans, redrive_reads
from standfast.wings.redrives import scripts as redrive_scripts
from standfast.wings.redrives.plans import PlannedLetter, Prediction, RuledLetter
from standfast.wings.redrives.renewal import renew_while
from standfast.wings.redrives.rules import (
    Finish,
    Halt,
    Release,
    Wait,
    fate_of,
    next_step,
    outcome_of,
    paced,
    read_course,
)
from standfast.wings.redrives.scripts import (
    AdvanceRequest,
    DrivenRedrive,
    DriveRequest,
    MemberOutcome,
    Plan,
    PlanRow,
    RedriveRow,
    Start,
    StateChange,
)
from standfast.wings.redrives.words import GOING_ON, Outcome, Phase, RedriveMember
from standfast.wings.replays.returning import LOOKS_AT_ONCE, Returning, ruled

PAGE = 500
"""The most letters that one step of a redrive releases."""
DRIVEN_FOR, SAY_SO_EVERY = 10.0, 2.5
"""Seconds after which another worker may drive a redrive, and between two renewals by its driver."""
NEXT: dict[str, tuple[tuple[Phase, ...], Phase]] = {
    "paused": (("running",), "paused"),
    "resumed": (("paused", "halted"), "running"),
    "cancelled": (GOING_ON, "cancelled"),
}
"""What a person may do with a redrive: from which states, and to which."""

PLANS = Plans(redrive_scripts.carry_out, redrive_scripts.withdraw, redrive_reads.first_letter)
"""What the answer to an approval does to a plan."""


class Redrive:
    """One redrive: `id`, `await progress()`, `pause()`, `resume()`, `cancel()`. Any process can hold one."""

    def __init__(self, redrives: Redrives, id: str, by: str) -> None:
        self._redrives = redrives
        self._by = by
        self.id = id

    async def progress(self) -> dict[str, Any]:
        """Return its state and what became of its letters."""
        return await self._redrives.progress(self.id)

    async def failures(self) -> Sequence[dict[str, Any]]:
        """Return the last of its letters that stopped again, each with its error."""
        return await self._redrives.failures(self.id)

    async def pause(self) -> None:
        """Replay no more letters until it is resumed; replayed ones go on."""
        await self._redrives.steer(self.id, "paused", by=self._by)

    async def resume(self) -> None:
        """Continue after a pause or a halt. After a halt it is judged anew, canary first."""
        await self._redrives.steer(self.id, "resumed", by=self._by)

    async def cancel(self) -> None:
        """End the redrive for good; the remaining letters stay as they are."""
        await self._redrives.steer(self.id, "cancelled", by=self._by)


class Redrives:
    """Plans and redrives of one store."""

    def __init__(
        self,
        store: Store,
        ready: Callable[[], Awaitable[None]],
        decider: Returning,
        *,
        permit: PermitMany,
        ttl: float = APPROVAL_TTL,
    ) -> None:
        self._store = store
        self._ready = ready
        self._decider = decider
        self._permit = permit
        self._ttl = ttl

    # --- for people

    async def plan(self, filter: LetterFilter | None = None, *, agent: bool = False) -> dict[str, Any]:
        """Predict what a redrive of these letters would do; store the plan. No letter changes, no check runs."""
        await self._ready()
        made = Prediction(filter or {})
        async for page in self._planned_letters(filter or {}, agent=agent):
            made.add(page, unanswered=await self._unanswered(page))
        foreseen = made.counts() | ({"for_agent": True} if agent else {})
        token = IDS.mint(self._wall())
        wanted = msgspec.json.encode(filter or {}).decode()
        foreseen_json = msgspec.json.encode({**foreseen, **made.approvers()}).decode()
        await self._store.write(
            redrive_scripts.plan,
            Plan(id=token, wanted=wanted, foreseen=foreseen_json, snapshot=made.snapshot, letters=made.rows),
        )
        return {"token": token, **foreseen}

    async def start(
        self,
        token: str,
        *,
        by: str,
        reason: str | None = None,
        rate: str | float | None = None,
        canary: int = 0,
        halt_on: float | None = None,
        agent: bool = False,
    ) -> Redrive:
        """Carry out a plan as it was made, or raise PlanDrifted and start nothing. A second call changes nothing."""
        await self._ready()
        by, reason = person(by), optional_reason(reason)
        options = read_course(rate, canary, halt_on)
        row, *_ = await self._row(token, "plan")
        if agent and not plans.is_for_agent(row):
            raise PlanDrifted(f"plan {token} was made for a person, and an agent asks; nothing was started: plan again")
        await self._check_policy(row)
        filing = self._filing(row, by, reason)
        start = Start(id=token, options=options, by=by, reason=reason, snapshot=row.snapshot, filing=filing)
        started = await self._store.write(redrive_scripts.start, start)
        if started.drifted:
            raise PlanDrifted(plans.drift(token, started.drifted))
        if started.row is None:
            raise UnknownRequest.for_id("plan", token)
        if not started.first and started.row.options != options:
            raise ConfigurationError(f"plan {token} was carried out before, with another rate, canary or halt_on")
        return Redrive(self, token, by)

    async def get(self, id: str, *, by: str) -> Redrive:
        """Return a redrive by its id, for `by` to pause, resume or cancel."""
        await self._row(id, "redrive")
        return Redrive(self, id, person(by))

    async def list(self, *, limit: int = 50) -> list[dict[str, Any]]:
        """List redrives, the newest first."""
        await self._ready()
        return [await self.progress(row.id) for row in await self._store.read(redrive_reads.list_redrives(limit))]

    async def progress(self, id: str) -> dict[str, Any]:
        """Return the state of a redrive, why, and how many of its letters are in which state."""
        row, counts, released = await self._row(id, "redrive")
        numbers = dict.fromkeys(("waiting", "running", *Outcome), 0)
        for state, outcome, _, number in counts:
            numbers[outcome if state == "ended" and outcome else _ONGOING[state]] += number
        if row.state != "running":  # it has no driver, but replayed letters go on: count how they ended
            ended = [outcome for _, state, status in released if (outcome := outcome_of(state, status)) is not None]
            numbers["running"] -= len(ended)
            for outcome in ended:
                numbers[outcome] += 1
        foreseen = msgspec.json.decode(row.foreseen)
        moment = moments(self._store.skew())
        return {
            "id": row.id,
            "state": row.state,
            "why": row.note,
            "by": row.asked_by,
            "reason": row.reason,
            "approval": row.approval,
            "letters": foreseen["letters"],
            **{str(name): number for name, number in numbers.items()},
            **msgspec.to_builtins(row.options),
            "started_at": moment(row.started_at),
            "ended_at": moment(row.ended_at),
        }

    async def failures(self, id: str) -> Sequence[dict[str, Any]]:
        """Return the last letters of a redrive that stopped again, each with its error."""
        return await self._store.read(redrive_reads.failed_again(id))

    async def queue_of(self, token: str) -> str | None:
        """Return the queue that a plan or redrive was made for; None if it was made for all queues."""
        row, *_ = await self._row(token, "plan")
        named: str | None = msgspec.json.decode(row.wanted).get("queue")
        return named

    async def steer(self, id: str, what: str, *, by: str, agent: bool = False) -> None:
        """Pause, resume or cancel a redrive, if it is not so already. An agent may resume only an agent's plan."""
        sources, target = NEXT[what]
        while True:
            row, *_ = await self._row(id, "redrive")
            if row.state == target:
                return
            if row.state not in sources:
                raise ConfigurationError(f"redrive {id} is {row.state} and cannot be {what}; nothing was changed")
            if agent and target == "running" and not plans.is_for_agent(row):
                raise PolicyDenied(f"redrive {id} was planned for a person; nothing was changed: ask one to resume it")
            decision = Decision(kind="redrive", by=by, outcome=what, detail={"redrive": id, "from": row.state})
            note = f"{what} by {by}" if target != "running" else None
            if await self._store.write(
                redrive_scripts.change_state, StateChange(id, row.state, target, decision, note, row.state == "halted")
            ):
                return

    # --- for workers

    async def drive(self, driver: str) -> bool:
        """Advance every redrive without another driver one step; return whether any letters were released."""
        await self._ready()
        after, went = "", False
        while (
            taken := await self._store.write(redrive_scripts.take, DriveRequest(driver, after, DRIVEN_FOR))
        ) is not None:
            after = taken.row.id
            went = await self._step(taken, driver) or went
        return went

    async def _step(self, taken: DrivenRedrive, driver: str) -> bool:
        row, options = taken.row, taken.row.options
        await self._settle(taken)
        match next_step(options, await self._store.read(redrive_reads.tally(row.id, row.episode))):
            case Release(wanted):
                number, next_at = paced(options, min(wanted, PAGE), taken.now, row.next_at)
                return number > 0 and await self._release(row, driver, number, next_at)
            case Halt(why):
                await self._end(row, driver, "halted", why)
            case Finish():
                await self._end(row, driver, "finished", None)
            case Wait():
                pass
        return False

    async def _settle(self, taken: DrivenRedrive) -> None:
        """Record how the letters fared that were under way."""
        ended = [(place, outcome_of(state, status)) for place, state, status in taken.released]
        members = [(RedriveMember(taken.row.id, place), outcome) for place, outcome in ended if outcome is not None]
        marks = [MemberOutcome(member, outcome, "released") for member, outcome in members]
        if marks:
            await self._store.write_all(redrive_scripts.mark, marks)

    async def _release(self, row: RedriveRow, driver: str, number: int, next_at: float) -> bool:
        planned = await self._store.write(
            redrive_scripts.advance, AdvanceRequest(row.id, driver, number, next_at, DRIVEN_FOR)
        )
        if not planned:
            return False
        records, _ = await self._store.read(redrive_reads.letters([each.n for each in planned]))
        busy = asyncio.Semaphore(LOOKS_AT_ONCE)
        still = AdvanceRequest(row.id, driver, 0, None, DRIVEN_FOR)
        async with renew_while(SAY_SO_EVERY, lambda: self._store.write(redrive_scripts.advance, still)):
            found = {each.record.row.n: each for each in await self._ask(records)}
            looks = (self._decide(row, driver, each, found.get(each.n), busy) for each in planned)
            decided = await asyncio.gather(*looks)
        moves = [each for each in decided if isinstance(each, Transition)]
        marks = [each for each in decided if isinstance(each, MemberOutcome)]
        if moves:  # a letter whose move does not land waits on, and the next step finds out why
            await self._store.write_all(apply, moves)
        if marks:
            await self._store.write_all(redrive_scripts.mark, marks)
        return True

    async def _decide(
        self, row: RedriveRow, driver: str, planned: PlanRow, found: RuledLetter | None, busy: asyncio.Semaphore
    ) -> Transition | MemberOutcome:
        """Decide about one letter anew: by policy and effects, and whether it is still as it was planned."""
        member = RedriveMember(row.id, planned.place, row.episode, driver)
        if found is None or not plans.as_planned(planned, found.record):
            return MemberOutcome(member, Outcome.DRIFTED)
        record, letter, ruling = found
        async with busy:
            reason = row.reason or f"redrive {row.id}"
            move = await self._decider.way_back(record, letter, by=row.asked_by or "", reason=reason)
        refused = None if move.move == Move.RESOLVE else plans.refusal(row, planned, ruling)
        if refused is not None:
            return MemberOutcome(member, refused)
        return ruled(move, letter, ruling).carrying(member)

    async def _end(self, row: RedriveRow, driver: str, phase: Phase, why: str | None) -> None:
        decision = Decision(kind="redrive", outcome=phase, reason=why, detail={"redrive": row.id})
        await self._store.write(
            redrive_scripts.change_state, StateChange(row.id, "running", phase, decision, why, driver=driver)
        )

    # --- reading

    async def _planned_letters(self, filter: LetterFilter, *, agent: bool) -> AsyncIterator[Sequence[PlannedLetter]]:
        """Read the letters that match a filter, in pages, oldest last, with what the policy says about each."""
        cursor: int | None = None
        size = plans.FIRST_PAGE
        while True:
            wanted = letter_filter(filter, self._store.now(), size, cursor, skew=self._store.skew())
            records, end = await self._store.read(listing.letters(wanted, reads.WHOLE))
            _, moved = await self._store.read(
                redrive_reads.letters([record.row.n for record in records if record.row.thread_gate])
            )
            ruled_letters = await self._ask(records, agent=agent)
            yield [self._look(each, moved_on=each.record.row.n in moved) for each in ruled_letters]
            cursor = records[-1].row.n if len(records) == size else end
            if cursor is None:
                return
            size = plans.next_page(records)

    async def _unanswered(self, page: Sequence[PlannedLetter]) -> set[int]:
        """Return which letters wait for a person's consent: if replayed, they would only ask again."""
        waiting = [each for each in page if awaits_consent(each.letter)]
        handlers = await self._store.read(queue_scripts.handlers_by_queue()) if waiting else {}
        asking = {(queue, each["name"]) for queue, those in handlers.items() for each in those if each["consent"]}
        return {each.record.row.n for each in waiting if (each.letter.queue, each.letter.handler) in asking}

    def _look(self, letter: RuledLetter, *, moved_on: bool) -> PlannedLetter:
        landed = self._decider.known_landed(letter.record)
        fate = fate_of(letter.ruling.permission.decision, landed=landed)
        return PlannedLetter(*letter, fate, moved_on)

    async def _ask(self, records: Sequence[JobRecord], *, agent: bool = False) -> Sequence[RuledLetter]:
        """Ask the policy about all letters at once; if an agent asks, a person decides about some of them."""
        letters, wall = [self._view(record) for record in records], self._wall()
        rulings = await self._permit([facts_at(letter, wall) for letter in letters])
        if agent:
            modes = await self._store.read(policies.replay_modes())
            rulings = [for_agent(*each, modes) for each in zip(rulings, letters, strict=True)]
        return [RuledLetter(*each) for each in zip(records, letters, rulings, strict=True)]

    async def _check_policy(self, row: RedriveRow) -> None:
        """Refuse a plan that was made under another policy."""
        record = await self._store.read(redrive_reads.first_letter(row.id)) if row.state == "planned" else None
        if record is not None and (await self._ask([record]))[0].ruling.snapshot != row.snapshot:
            raise PlanDrifted(f"the policy changed since plan {row.id} was made; nothing was started: plan again")

    def _filing(self, row: RedriveRow, by: str, reason: str | None) -> Filing | None:
        """Return the one approval to file for a whole plan, if the policy requires one."""
        foreseen = msgspec.json.decode(row.foreseen)
        if not foreseen["need_approval"]:
            return None
        return Filing(
            id=IDS.mint(self._wall()),
            bound=bound_to_plan(row.id, foreseen, row.snapshot),
            asked_by=by,
            reason=reason,
            requesters=tuple(foreseen["requesters"]),
            groups=tuple(foreseen["groups"]),
            rule=", ".join(foreseen["rules"]),
            ttl=self._ttl,
            redrive=row.id,
        )

    async def _row(self, id: str, what: str) -> Any:
        await self._ready()
        if not isinstance(id, str):
            raise ConfigurationError(f"a {what} is named by its token, a text, not by {id!r}")
        found = await self._store.read(redrive_reads.one(id))
        if found is None or (what == "redrive" and found[0].state == "planned"):
            raise UnknownRequest.for_id(what, id)
        return found

    def _view(self, record: JobRecord) -> JobView:
        return job_view(record, now=self._store.now(), skew=self._store.skew())

    def _wall(self) -> float:
        return self._store.now() + self._store.skew()


_ONGOING = {"waiting": "waiting", "released": "running"}
