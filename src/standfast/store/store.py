"""The store's verbs. Everything above speaks to these; which engine answers is a matter of the URL."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from standfast.clock import Clock, SystemClock
from standfast.errors import StoreClosed, StoreUnavailable
from standfast.job import NewJob
from standfast.lifecycle import Transition
from standfast.rules import QueueRules
from standfast.spine import apply as applying
from standfast.spine import bulk as together
from standfast.spine import claim as claiming
from standfast.spine import intake
from standfast.spine.known_rules import rules_in_force
from standfast.spine.orders import Accepted, Catch, Order, Publication
from standfast.store import shared, spools
from standfast.store.answers import Answer
from standfast.store.engine import Engine
from standfast.store.facades.agents import Agents
from standfast.store.facades.apart import Turns
from standfast.store.facades.calling import Calls
from standfast.store.facades.disposing import Disposal
from standfast.store.facades.flows import Flows
from standfast.store.facades.governance import Governance
from standfast.store.facades.looking_out import Lookout
from standfast.store.facades.notes import Notes
from standfast.store.facades.timetable import Timetable
from standfast.store.facades.trail import Trail
from standfast.store.finding import Finding
from standfast.store.inside import Inside
from standfast.store.places import place
from standfast.store.requests import Request
from standfast.store.room import ROOM_TO_ACCEPT, ROOM_TO_CLAIM
from standfast.store.scripts import Item, Patience, Result, Write
from standfast.store.spool import Spool, Stamp
from standfast.store.spoolfile import spool_path
from standfast.store.steps import Script
from standfast.wings.health import pressure as strain
from standfast.wings.health.pressure import Strain
from standfast.wings.health.timings import Counted
from standfast.wings.jobs import listing, reads
from standfast.wings.jobs import scripts as operations
from standfast.wings.jobs.listing import Filter, Sought
from standfast.wings.jobs.reads import Facts, JobRecord, JournalRow, LetterFilter, Tallies
from standfast.wings.letters import births
from standfast.wings.letters.births import Burial, Holding
from standfast.wings.limits.words import Row
from standfast.wings.notices.scripts import Carrying, carry
from standfast.wings.queues import ages
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.relay import scripts as forward
from standfast.wings.relay.scripts import Forward, Unforwardable
from standfast.wings.tokens.scripts import TokenShelf
from standfast.wings.tokens.session_scripts import SessionShelf
from standfast.wings.tokens.settings_scripts import SharedSettings
from standfast.worker import upkeep
from standfast.worker.upkeep import Beat, Prune, Sweep, Swept, WorkerCard

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds a caller waits for the store before it is told."""
LONG = 60.0
"""Seconds a caller waits for one large transaction."""


def _seconds(patience: Patience) -> float | None:
    if patience is Patience.CALLER:
        return PATIENCE
    return LONG if patience is Patience.LONG else None


class Store:
    """One store, open. Every verb that writes returns after its commit is on disk."""

    def __init__(
        self, url: str, clock: Clock | None = None, *, audit_file: str | None = None, spool: str | bool | None = None
    ) -> None:
        self._place = place(url, audit_file, spool if isinstance(spool, str) else None)
        self._spool = spool
        self.trail = Trail(lambda: self._engine)
        self.governance = Governance(lambda: self._engine)
        self.disposal = Disposal(lambda: self._engine)
        self.flows = Flows(lambda: self._engine, ROOM_TO_ACCEPT)
        self.notes = Notes(lambda: self._engine, ROOM_TO_CLAIM)
        self.schedules = Timetable(lambda: self._engine, ROOM_TO_ACCEPT)
        self.agents = Agents(lambda: self._engine)
        self.tokens = TokenShelf(lambda: self._engine)
        self.shared_settings = SharedSettings(lambda: self._engine)
        self.browser_sessions = SessionShelf(lambda: self._engine)
        self.lookout = Lookout(lambda: self._engine)
        self.calls = Calls(lambda: self._engine, ROOM_TO_ACCEPT)
        self.turns = Turns(lambda: self._engine)
        self._clock = clock or SystemClock()
        self._engine_of: tuple[int, Engine[Any]] | None = None
        self._closed = False

    @property
    def _engine(self) -> Engine[Any]:
        """The engine of this process: a forked child opens its own and never touches its parent's."""
        if self._engine_of is None or self._engine_of[0] != os.getpid():
            self.check_not_closed()
            self._engine_of = (os.getpid(), shared.acquire(self._place, self._clock))
        return self._engine_of[1]

    def open(self) -> None:
        """Open now rather than on first use."""
        self._engine.now()

    def reopen(self) -> None:
        """Let the next use open it again after `close`."""
        self._closed = False

    def check_not_closed(self) -> None:
        """Refuse what comes after `close`: whoever closed it counts on its file or its connections being free."""
        if self._closed:
            raise StoreClosed

    def close(self) -> None:
        """Serve what waits, then let go, until `reopen`."""
        self._closed = True
        opened, self._engine_of = self._engine_of, None
        if opened is not None and opened[0] == os.getpid():
            shared.release(opened[1])

    def now(self) -> float:
        """Give the present queue time."""
        return self._engine.now()

    def skew(self) -> float:
        """Give wall time minus queue time."""
        return self._engine.skew()

    def free_bytes(self) -> int:
        """Give the disk space left where the store is."""
        return self._engine.free_bytes()

    def disk_low(self) -> bool:
        """Tell whether new work is refused for want of disk space."""
        return self.free_bytes() < self._engine.room_to_accept()

    def wal(self) -> tuple[int, list[str]]:
        """Give the size of the log that a file has beside it, and who keeps it from becoming smaller."""
        return self._engine.wal()

    @property
    def unnoted(self) -> str | None:
        """Why the audit chain's head could not be noted outside of the store, if so."""
        return self._engine.anchor.problem

    @property
    def trouble(self) -> str | None:
        """What the writer met and has not got over."""
        return self._engine.trouble

    def there(self) -> bool:
        """Tell whether there is a store to open; opening creates one that is not."""
        return self._place.there()

    def is_file(self, path: str) -> bool:
        """Tell whether a file is this store's own."""
        return self._place.key == str(Path(path).resolve())

    def checkup(self, *, full: bool = False) -> list[Finding]:
        """Look at the store without opening it for use."""
        return list(self._place.checkup(room=ROOM_TO_ACCEPT, full=full))

    def schema_version(self) -> int:
        """Read the schema's number without bringing it forward."""
        return self._place.schema_version()

    def boot(self) -> str:
        """Identify the present boot."""
        return self._clock.boot()

    def spool(self) -> Spool | None:
        """Give the file that keeps this store's jobs while it is away; None where there is none to be."""
        away, named = self._place.away, self._spool
        if away is None or named is False:
            return None
        return spools.at(spool_path(named if isinstance(named, str) else None, away), away)

    def moment(self) -> Stamp:
        """Give the present moment as this host tells it, also while the store is away."""
        return Stamp(self._clock.boot(), self._clock.elapsed(), self._clock.wall())

    def queue_time(self, moment: Stamp) -> float:
        """Give the queue time of a moment of this host's: through a clock that no one sets, within one boot."""
        return self.now() - self.moment().since(moment)

    def listen(self, heard: Callable[[dict[str, float]], None]) -> None:
        """Be told which queues get work, and after how many seconds. Called on a thread of the store's."""
        self._engine.listen(heard)

    def unlisten(self, heard: Callable[[dict[str, float]], None]) -> None:
        """Be told no more."""
        self._engine.unlisten(heard)

    # --- the verbs

    def read(self, script: Script[T]) -> Answer[T]:
        """Run a reading script beside the writer."""
        return self._engine.read(script)

    def write(self, script: Write[Item, Result], item: Item) -> Request[Result]:
        """Run a writing script for one item, with whatever else waits; its result is given when it is on disk."""
        return self._engine.call(script, [item], seconds=_seconds(script.patience), single=True)

    def write_all(self, script: Write[Item, Result], items: Sequence[Item]) -> Request[list[Result]]:
        """Run a writing script for several items in one transaction; give a result for each."""
        return self._engine.call(script, items, seconds=_seconds(script.patience))

    def inside(self, tx: object) -> Inside:
        """Write inside a transaction of the caller's: durable when they commit it."""
        return self._engine.inside(tx)

    # --- writing

    def enqueue(self, jobs: Sequence[NewJob]) -> Awaitable[list[Accepted]]:
        """Store new jobs, each by itself: one of them may be refused and the others stored."""
        return self._engine.call(intake.enqueue, jobs, seconds=PATIENCE).start()

    async def enqueue_together(self, jobs: Sequence[NewJob]) -> list[Accepted]:
        """Store all of these new jobs, or none if their queue has no room for all."""
        [answers] = await self._engine.call(together.enqueue_together, [jobs], seconds=PATIENCE)
        return answers  # type: ignore[no-any-return]

    async def carry(self, carrying: Carrying) -> int:
        """Store the jobs that carry notices out, and note how far that is; give how far it is."""
        [at] = await self._engine.call(carry, [carrying], seconds=PATIENCE)
        return at  # type: ignore[no-any-return]

    def enqueue_blocking(self, jobs: Sequence[NewJob]) -> list[Accepted]:
        """Store new jobs from code without a loop."""
        return self._engine.call(intake.enqueue, jobs, seconds=PATIENCE).result()  # type: ignore[no-any-return]

    async def enqueue_inside(self, tx: object, jobs: Sequence[NewJob]) -> list[Accepted]:
        """Store all of these new jobs, or none, inside a transaction of the caller's: durable when they commit it."""
        return await self._engine.inside(tx).write(together.enqueue_together, jobs)

    def enqueue_inside_blocking(self, tx: object, jobs: Sequence[NewJob]) -> list[Accepted]:
        """Do the same for a caller without a loop."""
        return self._engine.inside(tx).write(together.enqueue_together, jobs).result()

    def forward_blocking(self, brought: Sequence[Forward]) -> None:
        """Store jobs that a spool took, each once, however often it is brought."""
        try:
            self._engine.call(forward.forward, brought, seconds=PATIENCE).result()
        except self._engine.FAULTS as error:
            raise Unforwardable(f"{type(error).__name__}: {error}") from error

    async def bury(self, burial: Burial) -> bool:
        """Store a job as a dead one; False if its queue is full."""
        [buried] = await self._engine.call(births.bury, [burial], seconds=PATIENCE)
        return buried  # type: ignore[no-any-return]

    def bury_blocking(self, burial: Burial) -> bool:
        """Do the same for a caller without a loop; raise Unforwardable if the store can take no such job."""
        try:
            [buried] = self._engine.call(births.bury_accepted, [burial], seconds=PATIENCE).result()
        except self._engine.FAULTS as error:
            raise Unforwardable(f"{type(error).__name__}: {error}") from error
        return buried  # type: ignore[no-any-return]

    def hold_restored_blocking(self, holding: Holding) -> bool:
        """Hold what a backup brought back; True if there is more."""
        [more] = self._engine.call(births.hold_restored, [holding], seconds=None).result()
        return more  # type: ignore[no-any-return]

    def back_up(self, path: str) -> dict[str, int]:
        """Copy the store to a new file while it goes on; give what the copy holds."""
        return self._engine.back_up(path)

    async def claim(self, order: Order) -> Catch:
        """Claim what a worker can start now."""
        [catch] = await self._engine.call(claiming.claim, [order], seconds=PATIENCE)
        return catch  # type: ignore[no-any-return]

    async def apply(self, transitions: Sequence[Transition]) -> list[bool]:
        """Move jobs as decided, however long it takes; answer for each whether it landed."""
        return await self._engine.call(applying.apply, transitions, seconds=None)  # type: ignore[no-any-return]

    def publish_blocking(self, publication: Publication) -> None:
        """Put declarations in force, also for jobs that wait: where those are many, sweepers do the rest."""
        [ages_changed] = self._engine.call(queue_scripts.publish, [publication], seconds=PATIENCE).result()
        give_up = time.monotonic() + PATIENCE
        with suppress(StoreUnavailable):  # the declarations are in force, and the sweepers go on
            while ages_changed and time.monotonic() < give_up:
                [ages_changed] = self._engine.call(ages.restamp, [None], seconds=PATIENCE).result()

    async def restamp(self) -> bool:
        """Give jobs that wait the expiry that a changed `max_age` means, a bite of them; True if there is more."""
        [more] = await self._engine.call(ages.restamp, [None], seconds=PATIENCE)
        return more  # type: ignore[no-any-return]

    def beat_blocking(self, worker: WorkerCard) -> Beat:
        """Renew a worker's leases; answer what the store says it holds."""
        [beat] = self._engine.call(upkeep.beat, [worker], seconds=PATIENCE).result()
        return beat  # type: ignore[no-any-return]

    async def retire(self, worker_id: str, counted: Counted | None = None) -> None:
        """Take a worker off the list, and keep what it counted."""
        await self._engine.call(upkeep.retire, [counted or Counted(worker_id, 0, {})], seconds=PATIENCE)

    async def sweep(self, sweep: Sweep) -> Swept:
        """Find lapsed and expired jobs."""
        [swept] = await self._engine.call(upkeep.sweep, [sweep], seconds=PATIENCE)
        return swept  # type: ignore[no-any-return]

    async def prune(self, prune: Prune) -> bool:
        """Delete what nobody needs; True if there is more."""
        [more] = await self._engine.call(upkeep.prune, [prune], seconds=PATIENCE)
        return more  # type: ignore[no-any-return]

    async def ask_to_stop(self, job_id: str, by: str) -> bool:
        """Ask a running job to stop; False if it is not running."""
        [asked] = await self._engine.call(operations.ask_to_stop, [(job_id, by)], seconds=PATIENCE)
        return asked  # type: ignore[no-any-return]

    async def hurry(self, job_id: str) -> bool:
        """Make a waiting job due now; False if it is not waiting."""
        [hurried] = await self._engine.call(operations.hurry, [job_id], seconds=PATIENCE)
        return hurried  # type: ignore[no-any-return]

    def count_fallbacks_blocking(self, counts: Mapping[str, int]) -> None:
        """Count calls that went to their fallback, by queue."""
        self._engine.call(operations.count_fallbacks, list(counts.items()), seconds=PATIENCE).result()

    async def count_ignored(self, queue: str) -> None:
        """Count a delivery that asked for nothing."""
        await self._engine.call(operations.count_ignored, [(queue, 1)], seconds=PATIENCE)

    async def pause(self, queue: str, *, paused: bool) -> bool:
        """Pause a queue or let it go on; False if nobody knows it."""
        [known] = await self._engine.call(operations.pause, [(queue, paused)], seconds=PATIENCE)
        return known  # type: ignore[no-any-return]

    # --- reading

    async def letters(self, wanted: LetterFilter) -> list[JobRecord]:
        """Read a page of letters, newest first."""
        return await self._engine.read(reads.letters(wanted))

    async def letters_page(self, wanted: LetterFilter) -> tuple[list[JobRecord], int | None]:
        """Read a page of letters, newest first; and where it ended early, because few of so many fit."""
        return await self._engine.read(listing.letters(wanted))

    async def journal(self, after: int, limit: int) -> list[JournalRow]:
        """Read what was told after a journal row."""
        return await self._engine.journal(after, limit)

    async def survey(self, *, silent_after: float) -> tuple[Facts, Tallies]:
        """Read facts and tallies in one snapshot, so that no job is counted twice or nowhere."""
        script = reads.survey(self.now(), self._engine.boot(), silent_after=silent_after)
        return await self._engine.read(script)

    async def strain(self) -> Strain:
        """Read what holds the store back from outside the queue."""
        return await self._engine.read(strain.strain(self.now()))

    async def job(self, job_id: str) -> JobRecord | None:
        """Read one job."""
        return await self._engine.read(reads.job(job_id, self._engine.boot()))

    async def gates(self, keys: Sequence[str]) -> list[Row]:
        """Read the gates of these names that there are."""
        return await self._engine.read(reads.gates(keys))

    async def jobs(self, wanted: Filter) -> Sought:
        """Read a page of jobs, newest first."""
        return await self._engine.read(listing.jobs(wanted, self.now()))

    async def rules(self, queue: str) -> QueueRules:
        """Read the rules in force for a queue."""
        found = await self._engine.read(rules_in_force([queue]))
        return found[queue]

    def published_rules_blocking(self, queue: str) -> QueueRules | None:
        """Read the rules in force for a queue that somebody declared; None if nobody did."""
        return self._engine.read(reads.published_rules(queue)).result()

    async def queue_names(self) -> list[str]:
        """Read the names of every queue that was declared or used."""
        return await self._engine.read(reads.queue_names())

    async def last_journal_number(self) -> int:
        """Read how far the journal has come: whoever sees it grow knows that something happened."""
        return await self._engine.read(reads.last_journal_number())

    async def facts(self, *, silent_after: float, unmoved_for: float | None = None) -> Facts:
        """Read what health is judged by; silent jobs only if told for how long nothing must have moved them."""
        script = reads.facts(self.now(), self._engine.boot(), silent_after=silent_after, unmoved_for=unmoved_for)
        return await self._engine.read(script)
