"""What a process declares, in a form that other processes can compare."""

from __future__ import annotations

from typing import Any

import msgspec

POLICY = "the policy"
"""The name under which a worker states which policy it has."""


def comparable(stated: dict[str, Any], policy: str | None) -> str:
    """Return what a process declares as comparable JSON text: queue, queue/handler or policy → its rules."""
    found = stated if policy is None else {**stated, POLICY: policy}
    return msgspec.json.encode({name: msgspec.json.encode(what).decode() for name, what in found.items()}).decode()
