"""Claims the jobs that can start now: for free slots, in queues that may have work."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from operator import attrgetter
from typing import Literal

from standfast.concurrency.loops import ClaimTasks, Guard, wait_out
from standfast.errors import StoreUnavailable
from standfast.job import Claim
from standfast.rules import QueueRules
from standfast.spine.claim_requests import ClaimRequest, ClaimResult, QueueDemand
from standfast.store.store import Store
from standfast.store.waiting_requests import StandingClaim
from standfast.wings.limits.queue_gates import QueueGates
from standfast.wings.limits.readiness import Readiness
from standfast.wings.policy.known_policy import KnownPolicy
from standfast.worker.claims_ahead import ClaimsAhead
from standfast.worker.planned_looks import PlannedLooks
from standfast.worker.total_slots import TotalSlots

MOST_PER_CLAIM = 512
"""The most jobs that one claim takes, so that a lone enqueue never waits long behind it."""
WORTH_A_CLAIM = 128
"""One claim fills up to this many slots at once: a transaction for fewer jobs costs nearly as much."""
PAUSE_AFTER_REFUSAL = 0.5
A_MOMENT = 0.05
"""Seconds that a job of `claim_until_empty` may take before the next job of its queue is started beside it."""

_queue_of, _gate_of = attrgetter("queue"), attrgetter("gate")

Start = Callable[[list[Claim], dict[str, QueueRules]], None]


class Claimer:
    """Keeps the slots of a worker's queues filled, one claim at a time."""

    def __init__(
        self,
        store: Store,
        worker: str,
        lanes: dict[str, tuple[str, ...]],
        *,
        elsewhere: tuple[str, ...],
        unserved: Collection[str] = (),
        slots: int,
        total: int | None = None,
        ahead: bool = False,
        start: Start,
        give_back: Start,
        doors: QueueGates,
        readiness: Readiness,
        policy: KnownPolicy | None = None,
        suspects: Callable[[tuple[str, ...]], None] = lambda _queues: None,
        refused: Callable[[StoreUnavailable], None],
    ) -> None:
        self._store = store
        self._worker = worker
        self._lanes = dict(lanes)
        self._served = {queue for queue in lanes if queue not in unserved}
        self._elsewhere = elsewhere
        """The handlers for queues not yet known: the built-in ones, or none if the worker was given its queues."""
        self._slots = slots
        self.total = TotalSlots(total)
        self._start = start
        self._give_back = give_back
        """Gives claimed jobs back to their queues without running them."""
        self._doors = doors
        self._readiness = readiness
        self._gates = doors.gates
        self._requirements = readiness.registry.with_requirements
        self._modes = readiness.registry.strict_modes
        self._largest_claim = min(max(WORTH_A_CLAIM, slots // 2), MOST_PER_CLAIM)
        """At most half the slots, if there are many: while one half runs, the other half is claimed."""
        self._policy = policy or KnownPolicy()
        self._free = Counter(dict.fromkeys(lanes, slots))
        self._hungry = set(lanes)
        self._claiming = ClaimTasks(self.kick)
        self._ahead = ClaimsAhead(self._claiming.running, self._free, self._largest_claim) if ahead else None
        self._standing: StandingClaim | None = None
        """A claim that waits in the store for a round that brings work, while this worker has nothing else to claim."""
        self._looks = PlannedLooks(self.note_hint)
        self._stopped = False
        self._suspects = suspects
        """Called with the queues that have suspects, which ordinary claims skip."""
        self._refused = refused
        self._suspects_only = False
        self._guard = Guard("claimer")

    @property
    def queues(self) -> list[str]:
        """The queues it serves: those it was created with, and others it has claimed from."""
        return sorted(self._served)

    def note_freed(self, queues: Counter[str]) -> None:
        """Count slots that have become free."""
        self._free += queues
        self.total.freed += queues.total()
        self.kick()

    def note_hint(self, hint: dict[str, float]) -> None:
        """Note that queues have work, now or after some seconds."""
        if not self._lanes.keys() >= hint.keys():
            self.learn(hint)
        for queue, seconds in hint.items():
            if queue in self._lanes:
                self._look_at(queue, seconds)
        self.kick()

    def learn(self, queues: Iterable[str]) -> None:
        """Serve these queues too, with the handlers that every queue has."""
        if not self._elsewhere:
            return
        for queue in queues:
            if queue not in self._lanes:
                self._lanes[queue] = self._elsewhere
                self._free[queue] = self._slots
                self._hungry.add(queue)

    def serve(self, lanes: dict[str, tuple[str, ...]]) -> bool:
        """Serve these handlers too; return whether any of them is new."""
        news = {queue for queue, handlers in lanes.items() if handlers != self._lanes.get(queue)}
        for queue in news:
            if queue not in self._lanes:
                self._free[queue] = self._slots
            self._lanes[queue] = lanes[queue]
        self._served |= news
        self._hungry |= news
        return bool(news)

    def look_everywhere(self) -> None:
        """Look at every queue: hints can be lost."""
        self._hungry.update(self._lanes)
        self.kick()

    def kick(self) -> None:
        """Claim for queues that may have work and have free slots, unless a claim under way allows no second one."""
        if self._claiming.pausing or self._stopped or self._suspects_only:
            return
        ahead: set[str] = set()
        if self._claiming.running:
            if self._ahead is None or self.total.limited:
                return
            ahead = self._ahead.queues((self._gates, self._requirements))
            if not ahead:
                return
        demands: list[QueueDemand] = []
        for queue in self._hungry | ahead:
            free = self._free[queue] - (0 if self._ahead is None else self._ahead.asked[queue])
            if free > 0:
                slots = min(self._largest_claim, free)
                if queue not in self._gates and queue not in self._requirements:
                    demands.append(QueueDemand(queue, self._lanes[queue], slots, modes=self._modes.get(queue)))
                elif self._may_claim(queue):
                    demands.append(self._demand(queue, slots))
        if self.total.limited:
            demands = self.total.share(demands)
        if not demands:
            self._stand()
        elif self._standing is None or self._standing.claims.withdraw(self._standing):
            # If it cannot be withdrawn, a round is serving it, and its answer calls `kick` again.
            self._standing = None
            # A hint that arrives while the claim is under way counts for the next: this one may have looked earlier.
            queues = [*map(_queue_of, demands)]
            self._hungry.difference_update(queues)
            claim = self._claim(ClaimRequest(self._worker, tuple(demands), self._policy.mark), [])
            answered = None if self._ahead is None else self._ahead.ask(demands)
            self._claiming.begin(claim, partial(self._hungry.update, queues), answered)

    def _stand(self) -> None:
        """Let the transaction that brings the next job claim it too: that saves an idle worker a round."""
        if self._standing is not None or self._hungry:
            return
        demands = []
        for queue, free in self._free.items():
            if free > 0 and queue not in self._gates and queue not in self._requirements:
                slots = min(self._largest_claim, free)
                demands.append(QueueDemand(queue, self._lanes[queue], slots, modes=self._modes.get(queue)))
        if self.total.limited:  # a hint makes the worker look at a queue that is left out
            demands = self.total.share(demands)
        if demands:
            self._standing = self._store.stand(request := ClaimRequest(self._worker, tuple(demands), self._policy.mark))
            self._standing.start().add_done_callback(partial(self._fed, request))

    def _fed(self, request: ClaimRequest, answer: asyncio.Future[ClaimResult]) -> None:
        """Start the jobs that a standing claim brought."""
        self._standing = None
        self._claiming.answers += 1
        hungry = {*map(_queue_of, request.demands)}
        try:
            if not answer.cancelled() and answer.exception() is None:
                hungry = self._take(request, answer.result())
        finally:
            self._hungry |= hungry
            self.kick()

    async def _stop_standing(self) -> None:
        """Withdraw the standing claim, or wait for its answer: the jobs it brings must not be forgotten."""
        if self._standing is not None and not self._standing.claims.withdraw(self._standing):
            await asyncio.wait([self._standing.start()])
        self._standing = None

    def _demand(self, queue: str, slots: int, *, alone: bool = False) -> QueueDemand:
        answer = self._doors.answer(queue) if queue in self._gates else None
        ready = self._readiness.words(queue) if queue in self._requirements else None
        return QueueDemand(queue, self._lanes[queue], slots, answer, ready, alone, self._modes.get(queue))

    def _request(self, demands: Iterable[QueueDemand]) -> ClaimRequest:
        return ClaimRequest(self._worker, tuple(demands), self._policy.mark)

    # --- suspects

    async def claim_suspects_only(self) -> None:
        """Claim only suspects from now on; wait for a claim that is under way."""
        self._suspects_only = True
        await self._stop_standing()
        await self._claiming.wait()

    def claim_all(self) -> None:
        """Claim ordinary jobs again."""
        self._suspects_only = False
        self.kick()

    def demands_alone(self, queues: Iterable[str]) -> list[QueueDemand]:
        """Return the demands for a suspect of each of these queues."""
        return [self._demand(queue, 1, alone=True) for queue in queues if queue in self._lanes]

    async def claim_alone(self, queues: Iterable[str] | None = None) -> Literal["started", "held", "none"]:
        """Claim one suspect of these queues, or of all, and start it; say if there is one that something holds back.

        It is claimed like any job: a drain waits for the answer, so that the job it brings is not forgotten.
        """
        wanted = [queue for queue in (self._lanes if queues is None else queues) if queue in self._lanes]
        await self._all_asked(wanted)
        if self._stopped or not wanted or self.total.at_its_end:
            return "none"
        claim = self._claim(self._request(self.demands_alone(wanted)), answers := list[ClaimResult]())
        await asyncio.wait([self._claiming.begin(claim, partial(self._hungry.update, wanted))])
        return "started" if answers and answers[0].claims else "held" if not answers or answers[0].suspects else "none"

    async def _all_asked(self, queues: Iterable[str]) -> None:
        """Ask the gates and probes that must be asked before a job of these queues starts."""
        for queue in list(queues):
            if self._doors.must_ask(queue):
                await self._doors.ask_now(queue)
            await self._readiness.refresh_queue(queue)

    # --- claiming

    def _may_claim(self, queue: str) -> bool:
        """Return whether a queue may be claimed from. If its gate must be asked first, ask it, then look again.

        The same goes for handlers whose probes have never run. Probes that said no are asked again while jobs run.
        """
        if queue in self._requirements and self._readiness.must_wait(
            queue, lambda seconds: self.note_hint({queue: seconds})
        ):
            return False
        if queue not in self._gates or not self._doors.must_ask(queue):
            return True
        self._doors.ask(queue, lambda seconds: self.note_hint({queue: seconds}))
        return False

    async def claim_until_empty(
        self, idle: Callable[[float | None], Awaitable[bool]], at_once: int | None = None
    ) -> Counter[str]:
        """Claim jobs and wait for them to end, until a claim brings none; return how many jobs each queue ran.

        At most `at_once` jobs of each queue are claimed: one makes jobs run by priority. `idle` waits until nothing
        runs: a job that takes longer than a moment may be waiting for another job, so that one is started beside it.
        """
        self._stopped = True  # nothing else claims meanwhile
        ran: Counter[str] = Counter()
        all_ended = True
        while True:
            await self._all_asked(self._lanes)
            request = self._request(self._demand(name, at_once or self._slots) for name in self._lanes)
            result = await self._claimed(request)
            self._policy.learn(result.policy)
            if result.suspects and not result.claims:
                result = await self._claimed(request := self._request(self.demands_alone(result.suspects)))
            to_ask = self._queues_to_ask(request, result)
            empty = not result.claims and not to_ask and result.next_due != 0
            if empty and all_ended:
                return ran
            self._start(result.claims, result.rules)
            ran.update(claim.queue for claim in result.claims)
            all_ended = await idle(None if empty else A_MOMENT)

    async def _claim(self, request: ClaimRequest, answers: list[ClaimResult]) -> None:
        if not await self._guard.run(partial(self._fill, request, answers)):
            await asyncio.sleep(PAUSE_AFTER_REFUSAL)

    async def _claimed(self, request: ClaimRequest) -> ClaimResult:
        """Claim. If this is cancelled, the claimed jobs are given back: the loop may be about to end."""
        return await wait_out(self._store.claim(request).start(), on_cancel=self._return)

    def _return(self, result: ClaimResult) -> None:
        self._free.subtract(map(_queue_of, result.claims))
        self.total.claimed += len(result.claims)
        self._give_back(result.claims, result.rules)

    async def _fill(self, request: ClaimRequest, answers: list[ClaimResult]) -> None:
        """Claim and start jobs; if the claim fails, its queues may still have work. Append the answer to `answers`."""
        hungry = {*map(_queue_of, request.demands)}
        try:
            result = await wait_out(self._store.claim(request).start(), self._return)
            answers.append(result)
            hungry = self._take(request, result)
        except StoreUnavailable as error:
            self._refused(error)
            await asyncio.sleep(PAUSE_AFTER_REFUSAL)
        finally:
            self._hungry |= hungry

    @property
    def is_sated(self) -> bool:
        """Whether no claim is under way, and every hinted queue with a free slot has been looked at."""
        return self.answers_due == self.answers and not any(self._free[queue] > 0 for queue in self._hungry)

    @property
    def claim_takes(self) -> float:
        """How many seconds the claim under way has been waiting; 0 if there is none."""
        return self._claiming.seconds

    @property
    def failures(self) -> int:
        """How many claims failed unexpectedly."""
        return self._guard.failures

    @property
    def answers(self) -> int:
        """How many claims were answered or given up."""
        return self._claiming.answers

    @property
    def answers_due(self) -> int:
        """How many answers there will be once every claim under way is answered."""
        return self.answers + len(self._claiming.running) + bool(self._standing and self._standing.taken)

    def _take(self, request: ClaimRequest, result: ClaimResult) -> set[str]:
        """Start the claimed jobs; return the queues that may have more."""
        claimed = Counter(map(_queue_of, result.claims))
        self._served |= claimed.keys()
        self._free.subtract(claimed)
        self.total.claimed += len(result.claims)
        hungry = set()
        for demand in request.demands:
            if claimed[demand.queue] == demand.slots:
                hungry.add(demand.queue)
        if self._ahead is not None:
            self._ahead.note(request.demands, hungry)
        if result.policy is not None:
            self._policy.learn(result.policy)
        if result.claims and not request.demands[0].alone:
            self._hungry |= hungry  # the store makes the next claim while these jobs begin
            self._claiming.note_answer(asyncio.current_task())
            self.kick()
        self._start(result.claims, result.rules)
        if result.suspects and not request.demands[0].alone:
            self._suspects(result.suspects)
        if self._gates or any(map(_gate_of, result.rules.values())):
            hungry |= self._queues_to_ask(request, result)
        if result.next_due is not None:
            for queue in self._lanes:
                self._look_at(queue, result.next_due)
        return hungry

    def _queues_to_ask(self, request: ClaimRequest, result: ClaimResult) -> set[str]:
        """Note which gates the rules in force name; return the queues whose gate must be asked first."""
        for queue, rules in result.rules.items():
            if rules.gate is not None or queue in self._gates:
                self._doors.learn(queue, rules.gate)
        return {each.queue for each in request.demands if each.admission is None and self._doors.must_ask(each.queue)}

    def _look_at(self, queue: str, seconds: float) -> None:
        """Mark a queue as one that may have work, now or after some seconds unless an earlier look is planned."""
        if seconds <= 0:
            self._hungry.add(queue)
        else:
            self._looks.plan(queue, seconds)

    def halt(self) -> None:
        """Claim nothing more, without waiting: for callers that cannot await."""
        self._stopped = True
        if self._standing is not None and self._standing.claims.withdraw(self._standing):
            self._standing = None

    async def stop(self) -> None:
        """Claim no more. Wait for a claim that is under way, so that the jobs it brings are not forgotten."""
        self._stopped = True
        self._looks.cancel()
        await self._stop_standing()
        await self._doors.stop()
        await self._claiming.wait()
