"""What a process declares, as others compare it."""

from __future__ import annotations

from typing import Any

import msgspec

POLICY = "the policy"
"""Under this name a worker tells which policy it has."""


def comparable(stated: dict[str, Any], policy: str | None) -> str:
    """Give what a process declares, for others to compare: queue, queue/handler or policy → its rules, as JSON text."""
    found = stated if policy is None else {**stated, POLICY: policy}
    return msgspec.json.encode({name: msgspec.json.encode(what).decode() for name, what in found.items()}).decode()
