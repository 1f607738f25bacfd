"""The body of a request about a new job, and of one line of many: the command line reads them too, without a server."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from standfast.rules import Coalesce


class HttpRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An HTTP request for a worker to send."""

    method: str
    url: str
    headers: dict[str, str] | None = None
    body: Any = None


class NewJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job to store; give `http` instead of `payload` for a request that a worker sends."""

    queue: str
    handler: str | None = None
    payload: Any = None
    http: HttpRequest | None = None
    thread_key: str | None = None
    coalesce: Coalesce | None = None
    priority: int | None = None
    delay: float | str | None = None
    at: datetime | float | None = None
    expires: datetime | float | None = None
    session: str | None = None
    labels: dict[str, str] | None = None
    risk: str | None = None


OPTIONS = tuple(name for name in NewJob.__struct_fields__ if name not in {"queue", "payload", "http", "session"})
"""What the body says about any job, under the names of `enqueue`; without the session, which the token says too."""
