"""Ready-made rules for eleven common queues. They hold for these names unless code or `standfast.toml` says otherwise.

No profile folds jobs: each record, key, file and message must arrive. A profile sets only what every process reads from
the rules in force; what is stamped on a job when it is stored (`priority`, `max_age`) and how long things are kept stay
as for any queue.
"""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.rules import DEFAULTS, QueueRules, exponential, queue_rules

LONG_OUTAGE: dict[str, Any] = {"attempts": 10, "backoff": exponential(base=5, cap=600)}

PROFILES: dict[str, dict[str, Any]] = {
    # A record more or less is no drama, a long backlog is: the service behind is back within a minute or is down.
    "analytics_ingest": {"attempts": 5, "backoff": exponential(base=2)},
    # A training signal loses its worth quickly, so it is tried briefly and then left for a look.
    "learning_capture": {"attempts": 3, "backoff": exponential(base=1)},
    # A user without an account or on the wrong tier must be mended, even if billing restarts for ten minutes.
    "identity_provision": {**LONG_OUTAGE, "dead_warning": 0},
    # A person said something and was told "thank you": it must arrive, and a minute's outage is the usual cause.
    "feedback": {"attempts": 5, "backoff": exponential(base=2)},
    # A key that is only in memory is gone with the process, so an outage is waited out.
    "mesh_keys": {**LONG_OUTAGE, "dead_warning": 0},
    # News of an intrusion are worth little tomorrow: seconds between tries, and a single lost one is an issue.
    "security_notify": {"attempts": 5, "backoff": exponential(base=3, cap=60), "dead_warning": 0},
    # Files are big and users wait for them: more tries, each with the time an upload takes.
    "artifact_delivery": {"attempts": 8, "backoff": exponential(base=5, cap=300), "timeout": 1800},
    # The store behind is often just locked or slow, so the first repeats come quickly.
    "conversation_index": {"attempts": 8, "backoff": exponential(base=1, cap=120)},
    # Writes to one graph collide and pass a moment later; they come in bursts, so a hundred waiting is no news.
    "graph_write": {"attempts": 8, "backoff": exponential(base=0.5, cap=60), "depth_warning": 1000},
    # The end of a session is sent once and never requested again, so it is tried through an outage of half an hour.
    "session_lifecycle": {"attempts": 10, "backoff": exponential(base=2, cap=600)},
    # Reading a document in takes long and costs money: few tries, far apart, each with an hour.
    "knowledge_ingest": {"attempts": 4, "backoff": exponential(base=30, cap=900), "timeout": 3600},
}
"""The rules of each, as `sf.queue` takes them, with the reason for its numbers."""


def rules_for(queue: str, **given: Any) -> QueueRules:
    """Build a queue's rules: what is given, over its profile, over the defaults."""
    return queue_rules(**{**PROFILES.get(queue, {}), **given})


_read = msgspec.json.Decoder(QueueRules).decode
RULES = {queue: rules_for(queue) for queue in PROFILES}
"""The rules of those queues, where nobody declared others."""


def defaults_for(queue: str) -> QueueRules:
    """Return the rules of an undeclared queue."""
    return RULES.get(queue, DEFAULTS)


def rules_from(queue: str, published: str | None) -> str:
    """Say where the rules of a queue come from: nobody declared any, its profile, its profile with changes, or code."""
    if queue not in PROFILES:
        return "declared" if published else "default"
    return "profile" if stored_rules(queue, published) == RULES[queue] else "profile, changed"


def stored_rules(queue: str, published: str | None) -> QueueRules:
    """Read the rules of a queue as the store has them; those of its profile where nobody published any."""
    return _read(published) if published else defaults_for(queue)
