"""Scenarios that the crash kit's own tests run: some survive, some are broken on purpose."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from standfast import Cancel, Effect, Found, Job, JobView, Permanent, Standfast, Transient, exponential
from standfast.testing import Scenario, World

README = Path(__file__).parents[2] / "README.md"


class Tickets(Scenario):
    """A handler that says what it did; what it may do again is on record."""

    effects: tuple[str, ...] = ("ticket",)
    jobs = 2

    def build(self, world: World) -> Standfast:
        sf = Standfast()
        self.world = world
        sf.handler("tickets")(self.create)
        return sf

    async def enqueue(self, sf: Standfast, world: World) -> None:  # noqa: ARG002 - not every scenario needs it
        for n in range(self.jobs):
            await sf.enqueue("tickets", {"n": n}, idempotency_key=f"t-{n}")

    async def create(self, job: Job) -> None:
        """Create a ticket."""
        self.world.happened("ticket", job)


# --- that survive


class Requests(Scenario):
    """The built-in HTTP handler, with a key."""

    effects = ("feedback",)

    def build(self, world: World) -> Standfast:  # noqa: ARG002
        sf = Standfast()
        sf.queue("feedback", destinations=["127.0.0.1"])
        return sf

    async def enqueue(self, sf: Standfast, world: World) -> None:
        for n in range(2):
            await sf.enqueue_http("feedback", "POST", world.url("feedback"), body={"n": n}, idempotency_key=f"f-{n}")


class Called(Tickets):
    """The same handler, called rather than enqueued: recorded before it is called, and gone on with by a worker."""

    async def enqueue(self, sf: Standfast, world: World) -> None:  # noqa: ARG002
        for n in range(self.jobs):
            await sf.run("tickets", {"n": n}, idempotency_key=f"t-{n}")


class Looks(Tickets):
    """A plain function that looks before it acts, fails once on the way, and waits long before it is tried again."""

    def build(self, world: World) -> Standfast:
        self.world = world
        sf = Standfast()
        sf.queue("tickets", attempts=10, lease=600, backoff=exponential(base=3600, cap=7200))
        sf.handler("tickets")(self.look_first)
        return sf

    def look_first(self, job: Job) -> None:
        """Act only if it is not done yet."""
        if job.attempt == 1:
            raise Transient("not today")
        self.world.step("looking")
        if not self.world.has("ticket", job):
            self.world.happened("ticket", job)


class Ledger(Tickets):
    """Two effects in the ledger: what has its receipt is not done again."""

    effects = ("ticket", "mail")

    def build(self, world: World) -> Standfast:
        self.world = world
        sf = Standfast()
        sf.handler("tickets", effects=[Effect(name) for name in self.effects])(self.both)
        return sf

    async def both(self, job: Job) -> None:
        """Do both."""
        for name in self.effects:
            await job.once(name, self.world.happened, name, job)


class Verified(Ledger):
    """The same in a plain function, with a way to look: before every repeat, somebody does."""

    def build(self, world: World) -> Standfast:
        self.world = world
        sf = Standfast()
        effects = [Effect(name, partial(self.look, name)) for name in self.effects]
        sf.handler("tickets", replay="verify_first", effects=effects)(self.both_in_a_thread)
        return sf

    def look(self, name: str, job: Job) -> bool:
        """Look at the world."""
        return self.world.has(name, job)

    def both_in_a_thread(self, job: Job) -> None:
        """Do both."""
        for name in self.effects:
            job.once_sync(name, self.world.happened, name, job)


class FollowedUp(Tickets):
    """The README's example: a ticket that is looked for before a repeat, and a mail behind it."""

    def build(self, world: World) -> Standfast:
        self.world = world
        self.sf = sf = Standfast()
        sf.handler("tickets", replay="verify_first", effects=[Effect("ticket", self.find)])(self.make_ticket)
        sf.handler("mail")(self.mail)
        return sf

    def find(self, job: Job) -> bool | Found:
        """Look for the ticket, and give its receipt."""
        return Found({"ticket": job.idempotency_key}) if self.world.has("ticket", job) else False

    async def make_ticket(self, job: Job) -> dict[str, str]:
        """Make a ticket, then have somebody told."""
        async with job.effect("ticket") as e:
            if not e.done:
                e.record({"ticket": self.world.happened("ticket", job)})
        self.world.step("behind the ticket")
        await self.sf.enqueue("mail", e.receipt, idempotency_key=f"{job.idempotency_key}.mail")
        self.world.step("behind the mail")
        receipt: dict[str, str] = e.receipt
        return receipt

    async def mail(self, job: Job) -> None:
        """Tell of the ticket: the receipt is there, whichever attempt brought it."""
        if not self.world.has("mail", job):
            self.world.happened("mail", job)

    def expects(self, job):
        if job.queue == "mail":
            return []
        return [("ticket", job.result["ticket"]), ("mail", f"{job.idempotency_key}.mail")]


class Tracker:
    """What the README's example makes its tickets with."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def create(self, title: str, external_id: str) -> dict[str, str]:
        """Make a ticket."""
        return {"title": title, "id": self.world.happened("ticket", external_id)}

    async def find(self, external_id: str) -> dict[str, str] | None:
        """Find a ticket."""
        return {"title": "found", "id": external_id} if self.world.has("ticket", external_id) else None


class Readme(Scenario):
    """The README's example, run as it stands."""

    def build(self, world: World) -> Standfast:
        sf = Standfast()
        names = {"sf": sf, "tracker": Tracker(world), "Effect": Effect, "Found": Found}
        section = README.read_text().partition("\n## Did it land?\n")[2]
        exec(section.partition("```python\n")[2].partition("```")[0], names)  # noqa: S102 - the README's own

        @sf.handler("mail")
        async def mail(job: Job) -> None:
            assert job.payload["ticket"]["id"]
            if not world.has("mail", job):
                world.happened("mail", job)

        return sf

    async def enqueue(self, sf: Standfast, world: World) -> None:  # noqa: ARG002
        for n in range(2):
            await sf.enqueue("tickets", {"title": f"title {n}"}, idempotency_key=f"t-{n}")

    def expects(self, job):
        return [("ticket", f"{job.id}.ticket"), ("mail", f"{job.id}.mail")] if job.queue == "tickets" else []


class Stepped(Tickets):
    """Steps that nothing is declared about: each is done, and none again that was recorded."""

    effects = ("fetch", "build", "ship")
    jobs = 1

    def build(self, world: World) -> Standfast:
        self.world = world
        sf = Standfast()
        sf.queue("tickets", attempts=1)
        sf.handler("tickets")(self.all_of_them)
        return sf

    async def all_of_them(self, job: Job) -> None:
        """Do one after the other."""
        for name in self.effects:
            await job.step(name, self.world.happened, name, job)


class Keyless(Tickets):
    """Nothing tells the second enqueueing of a job from another job."""

    async def enqueue(self, sf: Standfast, world: World) -> None:  # noqa: ARG002
        for n in range(self.jobs):
            await sf.enqueue("tickets", {"n": n})


class Careful(Tickets):
    """Never repeated by itself: after a crash it is dead, and a person decides."""

    def build(self, world: World) -> Standfast:
        self.world = world
        sf = Standfast()
        sf.handler("tickets", replay="manual")(self.create)
        return sf


OURS = Standfast()
"""An application's own queue, made when its module is imported."""
SENT: list[str] = []


@OURS.handler("mail")
def send(job: Job) -> None:
    """Send mail by whatever sends it, and have it counted in another queue."""
    deliver(job)
    OURS.enqueue_sync("counts", idempotency_key=job.idempotency_key)


@OURS.handler("counts")
async def count(job: Job) -> None:
    """Count."""
    deliver(job)


def deliver(job: Job) -> None:
    """Do what the scenario replaces."""
    SENT.append(job.id)


class Application(Scenario):
    """Module-level code, whose queue and means the scenario borrows; one job enqueues another."""

    def build(self, world: World) -> Standfast:
        def delivered(job: Job) -> None:
            world.happened(job.queue, job)

        globals()["deliver"] = delivered
        return OURS

    async def enqueue(self, sf: Standfast, world: World) -> None:  # noqa: ARG002
        await sf.enqueue("mail", idempotency_key="m-1")

    def expects(self, job):
        return [(job.queue, job.idempotency_key)]


# --- that do not


class Twice(Tickets):
    """Does everything twice."""

    async def create(self, job: Job) -> None:
        self.world.happened("ticket", job)
        self.world.happened("ticket", job)


class Swallows(Tickets):
    """Meets an error and says nothing of it."""

    async def create(self, job: Job) -> None:
        with suppress(KeyError):
            self.world.happened("ticket", job.payload[job.payload["n"]])


class Assumes(Tickets):
    """Takes a second attempt for a proof that the first one did it."""

    async def create(self, job: Job) -> None:
        if job.token == 1:
            self.world.happened("ticket", job)


class Hangs(Tickets):
    """Never ends once it was interrupted."""

    async def create(self, job: Job) -> None:
        self.world.happened("ticket", job)
        if job.token > 1:
            await asyncio.Event().wait()


class Kills(Tickets):
    """Kills its worker, each time."""

    jobs = 1

    async def create(self, job: Job) -> None:
        self.world.happened("ticket", job)
        os._exit(7)


# --- that cannot be judged


class Breaks(Tickets):
    """Cannot be built."""

    def build(self, world: World) -> Standfast:  # noqa: ARG002
        raise RuntimeError("no such thing")


class Idle(Tickets):
    """Enqueues nothing."""

    jobs = 0


class Silent(Tickets):
    """Tells of no effect, and completes nothing."""

    def build(self, world: World) -> Standfast:
        sf = super().build(world)
        sf.queue("tickets", attempts=1)
        return sf

    async def create(self, job: Job) -> None:
        raise Transient(f"never {job.id}")


class Mute(Tickets):
    """Acts in a way that nobody sees, and gives up."""

    async def create(self, job: Job) -> Cancel:  # type: ignore[override]
        return Cancel(job.id)


class Undeclares(Tickets):
    """Uses an effect that it forgot to declare."""

    async def create(self, job: Job) -> None:
        await job.once("ticket", self.world.happened, "ticket", job)


class Unnamed(Scenario):
    """Names no effects."""


def start_a_thread() -> None:
    """Have a thread in this process, as some libraries do when they are imported."""
    threading.Thread(target=threading.Event().wait, daemon=True).start()


# --- whose jobs are meant to die


class Refuses(Tickets):
    """A handler that refuses every job: each must end as a letter, whatever is killed on the way."""

    effects: tuple[str, ...] = ()
    expected: str | None = "dead"

    async def create(self, job: Job) -> None:
        raise Permanent(f"no ticket for {job.payload['n']}")


class RefusesLate(Refuses):
    """The same, after an effect that every one of its jobs must have had."""

    effects: tuple[str, ...] = ("ticket",)

    async def create(self, job: Job) -> None:
        self.world.happened("ticket", job)
        await super().create(job)


class Completes(Tickets):
    """A handler that completes although its jobs are meant to die."""

    expected: str | None = "dead"


class RefusesOne(Refuses):
    """One job of two is meant to die."""

    effects: tuple[str, ...] = ("ticket",)

    def ends(self, job: JobView) -> str:
        return "dead" if job.payload["n"] else "completed"

    def expects(self, job: JobView) -> Iterable[tuple[str, str]]:
        return [] if job.payload["n"] else super().expects(job)

    async def create(self, job: Job) -> None:
        if job.payload["n"]:
            raise Permanent("no")
        self.world.happened("ticket", job)
