"""A policy of the test's own, handed in where the one in force is asked; and letters to decide about."""

from __future__ import annotations

from standfast import Standfast
from standfast.testing import drain
from standfast.wings.consent.verbs import Consent
from standfast.wings.letters.verbs import DeadLetters
from standfast.wings.policy.facts import Facts
from standfast.wings.policy.permit import Permission, group_names
from standfast.wings.policy.rulings import Ruling
from standfast.worker.redriver import Redriver


class Rulebook:
    """Answers as the test says: one decision for all letters, or another one for those of some queues."""

    def __init__(self, decision: str = "allow", group: str | None = None) -> None:
        self.decision = decision
        self.group = group
        self.snapshot = "first"
        self.queues: dict[str, str] = {}
        self.asked: list[Facts] = []

    async def __call__(self, facts: Facts) -> Ruling:
        self.asked.append(facts)
        decision = self.queues.get(facts.queue or "", self.decision)
        return Ruling(Permission(decision, "rule#1", "the book says so", group_names(self.group)), self.snapshot)  # type: ignore[arg-type]


def govern(sf: Standfast, book: Rulebook, **groups: tuple[str, ...]) -> DeadLetters:
    """Have this book decide, here and in workers of this object."""

    async def groups_of(person: str) -> tuple[str, ...]:
        return groups.get(person, ())

    letters = DeadLetters(
        sf._store,  # noqa: SLF001 - the seam that the policy in force goes through
        sf._ready,  # noqa: SLF001
        sf._registry,  # noqa: SLF001
        sf._verifier,  # noqa: SLF001
        permit=book,
        groups_of=groups_of,
    )
    sf.dead_letters, sf.approvals = letters, letters.approvals
    return letters


def broken(sf: Standfast, *queues: str) -> set[str]:
    """Declare queues whose handler fails for good while the name is in the set that is given back."""
    failing = set(queues)
    for queue in queues:
        sf.queue(queue, attempts=1)

        @sf.handler(queue)
        async def handle(job):
            if job.queue in failing:
                return {"success": False, "error": "no", "error_kind": "validation"}
            return {"done": job.payload}

    return failing


async def letter(sf: Standfast, queue: str = "mail", requester: str | None = "rita") -> str:
    """Enqueue a job and let it die."""
    receipt = await sf.enqueue(queue, {"n": 1}, requester=requester)
    await drain(sf)
    assert receipt.id is not None
    return receipt.id


def redriver(sf: Standfast, name: str = "worker-1", consent: Consent | None = None) -> Redriver:
    """Give what a worker runs beside its jobs, to be stepped by the test."""
    return Redriver(sf._store, sf.dead_letters, name, consent)  # noqa: SLF001
