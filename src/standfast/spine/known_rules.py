"""The rules in force, as a round reads them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from standfast.profiles import defaults_for
from standfast.rules import QueueRules
from standfast.store.steps import Rows, Script, text

_rules = msgspec.json.Decoder(QueueRules)


def rules_in_force(queues: Iterable[str]) -> Script[dict[str, QueueRules]]:
    """Read the published rules of these queues; the defaults where none were declared."""
    known = yield "queue_rules", {"queues": text(list(queues))}
    return read_rules(queues, known)


def read_rules(queues: Iterable[str], known: Rows) -> dict[str, QueueRules]:
    """Read rules out of the rows of `queue_rules`."""
    published = {name: rules for name, rules, *_ in known}
    return {name: _rules.decode(published[name]) if published.get(name) else defaults_for(name) for name in queues}
