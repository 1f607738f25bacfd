"""A handler that counts its calls, for tests of who calls it."""

from __future__ import annotations

from collections import Counter
from typing import Any


def counting(sf: Any, queue: str = "mail", **options: Any) -> Counter[Any]:
    """Register a handler that counts its calls by payload."""
    calls: Counter[Any] = Counter()

    async def handler(job: Any) -> Any:
        calls[job.payload] += 1
        return {"got": job.payload}

    sf.handler(queue, **options)(handler)
    return calls
