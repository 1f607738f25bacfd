"""The rules in force, as a round reads them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from standfast.profiles import RULES
from standfast.rules import DEFAULTS, QueueRules
from standfast.store.steps import Rows, Script, text

_read = lru_cache(maxsize=1024)(msgspec.json.Decoder(QueueRules).decode)
"""Reads published rules, the same text once."""


def rules_in_force(queues: Iterable[str]) -> Script[dict[str, QueueRules]]:
    """Read the published rules of these queues; the defaults where none were declared."""
    queues = [*queues]
    known = yield "queue_rules", {"queues": text(queues)}
    return read_rules(queues, known)[0]


def read_rules(queues: Iterable[str], known: Rows) -> tuple[dict[str, QueueRules], set[str]]:
    """Read rules out of the rows of `queue_rules`, and which of the queues are known and not paused."""
    rules = dict.fromkeys(queues, DEFAULTS)
    for name in RULES.keys() & rules.keys():
        rules[name] = RULES[name]
    open_queues = set()
    for name, published, paused, _ in known:
        if published:
            rules[name] = _read(published)
        if not paused:
            open_queues.add(name)
    return rules, open_queues
