"""One line of a bulk request: a job as in a request for one, with its own idempotency key."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.wings.jobs.bodies import OPTIONS, NewJob


class NewJobLine(NewJob, frozen=True, forbid_unknown_fields=True):
    """A job on a line of its own. With an `idempotency_key`, the same line can be sent again."""

    idempotency_key: str | None = None


def call_of(line: NewJobLine) -> dict[str, Any]:
    """Return the arguments of `enqueue_each` for a line."""
    given = {name: getattr(line, name) for name in (*OPTIONS, "idempotency_key", "payload")}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if line.http is not None:
        options["http"] = {
            name: value for name, value in msgspec.structs.asdict(line.http).items() if value is not None
        }
    return {"queue": line.queue, **options}
