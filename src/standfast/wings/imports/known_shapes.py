"""The known shapes of records: which fields they name, and what their states mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from standfast.wings.imports.words import Meaning

Defaults = Mapping[str, Sequence[str]]

_QUEUED = "pending queued scheduled ready new waiting retry retrying retry_pending delayed"
_QUEUED_OPS = "queued_retry queued_deferred_submit queued_scheduled_job"
_IN_DOUBT = "processing claimed running in_progress started active leased dispatched timeout timed_out"
_DEAD = "dead dead_letter dead_lettered exhausted failed error rejected held"
_FINISHED = "completed complete done succeeded success ok finished delivered cancelled canceled resolved discarded"

STATES: Mapping[str, Meaning] = {
    **dict.fromkeys(f"{_QUEUED} {_QUEUED_OPS}".split(), Meaning.QUEUED),
    **dict.fromkeys(_IN_DOUBT.split(), Meaning.IN_DOUBT),
    **dict.fromkeys(_DEAD.split(), Meaning.DEAD),
    **dict.fromkeys(_FINISHED.split(), Meaning.FINISHED),
}
"""What the words for states mean, in lower case. `--state WORD=MEANING` adds others."""
FAILED = "failed"
RETRYABLE = frozenset({FAILED, "error"})

_ENVELOPE: dict[str, Sequence[str]] = {
    "id": ("id", "event_id", "job_id", "operation_id"),
    "queue": ("queue", "queue_name", "topic"),
    "handler": ("handler",),
    "payload": ("payload", "params"),
    "idempotency_key": ("idempotency_key",),
    "thread_key": ("thread_key",),
    "priority": ("priority",),
    "labels": ("labels",),
    "attempts": ("attempts", "retry_count"),
    "max_attempts": ("max_attempts", "max_retries"),
    "first_seen_at": ("first_seen_at", "created_at", "enqueued_at", "timestamp", "ts"),
    "due_at": ("due_at", "next_retry_at", "retry_at"),
    "ended_at": ("dead_at", "failed_at", "finished_at", "updated_at"),
    "state": ("state", "status"),
    "reason_code": ("reason_code",),
    "message": ("last_error", "error", "reason"),
    "error_kind": ("error_kind",),
    "session": ("session", "session_id", "originating_session_id"),
    "requester": ("requester",),
    "risk": ("risk",),
    "history": ("history", "retry_history"),
    "result": ("result",),
}
_BARE: dict[str, Sequence[str]] = {
    name: _ENVELOPE[name] for name in ("id", "queue", "handler", "idempotency_key", "first_seen_at")
} | {"payload": ("$",)}
"""The map for a record that is itself the payload: most of its fields are data, whatever they are called."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about the records of a source."""

    fields: Defaults
    bare: Defaults | None = None
    """The map for a record without a payload of its own, if it has another map."""
    no_state: Meaning = Meaning.QUEUED
    """What a record without a state means."""
    failed_is_retried: bool = False
    """Whether `failed` is retried while attempts are left; otherwise it is final."""
    runs_in_rounds: bool = False
    """Whether it is an op record, whose state is spread over several fields."""

    def defaults_for(self, value: Mapping[str, Any], given: Mapping[str, str]) -> Defaults:
        """Return the map for one record."""
        has_payload = "payload" in given or any(name in value for name in ("payload", "params"))
        return self.fields if self.bare is None or has_payload else self.bare


JSONL = Profile(fields=_ENVELOPE, bare=_BARE)
LETTERS = Profile(fields=_ENVELOPE | {"payload": ("payload", "request", "params", "$")}, no_state=Meaning.DEAD)
OPS = Profile(
    fields=_ENVELOPE
    | {
        "id": ("operation_id", "op_id", "id"),
        "queue": ("queue", "capability"),
        "handler": ("handler", "capability"),
        "payload": ("params",),
        "first_seen_at": ("created_at", "started_at", "timestamp"),
        "ended_at": ("completed_at", "failed_at", "updated_at"),
        "message": ("error", "last_error"),
        "lease": ("lease_seconds",),
        "queue_reason": ("queue_reason",),
    },
    runs_in_rounds=True,
)


def of_table(table: str, *, dead: bool = False) -> Profile:
    """Return the profile of a table: its payload is JSON text, and its name is the queue of rows without one."""
    fields = _ENVELOPE | {
        "queue": ("queue", "queue_name", f"={table}"),
        "payload": ("json:payload", "json:data", "$"),
        "labels": ("json:labels",),
        "labels.trigger": ("trigger", "trigger_type", "event_type"),
        "labels.source": ("source",),
        "history": ("json:history",),
        "result": (),
    }
    no_state = Meaning.DEAD if dead else Meaning.QUEUED
    return Profile(fields=fields, no_state=no_state, failed_is_retried=table == "events")
