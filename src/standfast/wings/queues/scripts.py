"""Scripts for the rules of queues: what processes declare is put in force for all."""

from __future__ import annotations

from collections.abc import Sequence

from standfast.rules import QueueRules
from standfast.spine.claim import rules_in_force
from standfast.spine.orders import Publication
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text
from standfast.wings.limits import scripts as gates
from standfast.wings.queues import ages, layers


@writes(apart=True)
def publish(round_: Round, publications: Sequence[Publication]) -> Script[list[bool]]:
    """Put declarations in force for every process: the last published wins. Answer whether a `max_age` changed."""
    ages_changed = False
    for publication in publications:
        queues, there = yield from layers.merge(publication)
        used = text({name: rules for name, rules in queues.items() if name in there})
        changed = yield "changed_ages", {"queues": used}
        regulated = yield "changed_gates", {"queues": used}
        yield "publish_queues", {"queues": text(queues), "now": round_.now}
        yield "publish_handlers", {"handlers": text(publication.handlers), "now": round_.now}
        ages_changed = ages_changed or bool(changed)
        yield from ages.mark(round_, [name for (name,) in changed])
        if regulated:  # last: after this it waits for nobody
            yield "lock_all_jobs", {}
            yield from gates.regulate(round_, {name: queues[name] for (name,) in regulated})
    return [ages_changed] * len(publications)


def rules(queue: str) -> Script[QueueRules]:
    """Read the rules in force for a queue."""
    return (yield from rules_in_force([queue]))[queue]
