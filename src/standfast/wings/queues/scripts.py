"""Scripts for the rules of queues: they put a process's declarations in force for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from standfast.profiles import stored_rules
from standfast.rules import QueueRules
from standfast.spine.claim import rules_in_force
from standfast.spine.claim_requests import Publication
from standfast.spine.registry import Declaration
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text
from standfast.wings.limits import scripts as gates
from standfast.wings.queues import ages, layers


@writes(separate=True)
def publish(round_: Round, publications: Sequence[Publication]) -> Script[list[bool]]:
    """Put declarations in force for every process: the last published wins. Return whether a `max_age` changed."""
    ages_changed = False
    for publication in publications:
        queues, stored = yield from layers.merge(publication)
        used = text({name: rules for name, rules in queues.items() if name in stored})
        changed = yield "changed_ages", {"queues": used}
        regulated = yield "changed_gates", {"queues": used}
        yield "publish_queues", {"queues": text(queues), "now": round_.now}
        yield "publish_handlers", {"handlers": text(publication.handlers), "now": round_.now}
        ages_changed = ages_changed or bool(changed)
        yield from ages.mark(round_, [name for (name,) in changed])
        if regulated:  # last: after this it waits for no lock
            yield "lock_all_jobs", {}
            yield from gates.regulate(round_, {name: queues[name] for (name,) in regulated})
    return [ages_changed] * len(publications)


class Redeclaration(NamedTuple):
    """What a running process declares for a handler now, and what it declared before."""

    before: Declaration
    after: Declaration


@writes(separate=True)
def redeclare(round_: Round, changes: Sequence[Sequence[Redeclaration]]) -> Script[list[None]]:
    """Replace earlier declarations. If another process has replaced one meanwhile, that stays."""
    each = [change for some in changes for change in some]
    yield "lock_layers", {"queues": text(sorted({change.before.queue for change in each}))}
    stored = {tuple(row) for row in (yield "list_handlers", {})}
    handlers = [change.after for change in each if _row_of(change.before) in stored]
    yield "publish_handlers", {"handlers": text(handlers), "now": round_.now}
    return [None] * len(changes)


def _row_of(said: Declaration) -> tuple[object, ...]:
    """Return a declaration as `list_handlers` reads it."""
    return said.queue, said.name, said.replay_mode, said.risk, said.timeout, int(said.consent), said.when_landed


def rules(queue: str) -> Script[QueueRules]:
    """Read the rules in force for a queue."""
    return (yield from rules_in_force([queue]))[queue]


def published_rules(queue: str) -> Script[QueueRules | None]:
    """Read the published rules of a queue, or its defaults if only a handler was published; None if nothing was."""
    rows = yield "published_rules", {"queue": queue}
    for (rules,) in rows:
        return stored_rules(queue, rules)
    return None


def queue_names() -> Script[list[str]]:
    """Read the names of the queues."""
    rows = yield "queue_names", {}
    return [name for (name,) in rows]


def published_handlers() -> Script[list[tuple[str, str]]]:
    """Read every handler that a process ever published, with its queue."""
    return [(queue, handler) for queue, handler, *_ in (yield "list_handlers", {})]


def places(name: str) -> Script[list[tuple[str, str]]]:
    """Read the declared handlers that a name may mean, with their queues."""
    return [(queue, handler) for queue, handler in (yield "handlers_named", {"name": name})]


def handlers_by_queue() -> Script[dict[str, list[dict[str, Any]]]]:
    """Read every published handler, by queue."""
    found: dict[str, list[dict[str, Any]]] = {}
    for queue, name, replay, risk, timeout, consent, _ in (yield "list_handlers", {}):
        facts = {"name": name, "replay": replay, "risk": risk, "timeout": timeout, "consent": bool(consent)}
        found.setdefault(queue, []).append(facts)
    return found
