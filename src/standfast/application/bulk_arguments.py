"""The arguments of `enqueue_many`: several payloads, and the values that belong to each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from standfast.errors import ConfigurationError
from standfast.job import NewJob
from standfast.spine.accept import checked_name, moment
from standfast.typed.job_options import Ages, Keys


def several(payloads: Iterable[Any]) -> Iterable[Any]:
    """Refuse a text or a dict instead of a list of payloads: each of its letters or keys would become a job."""
    if isinstance(payloads, str | bytes | Mapping) or not isinstance(payloads, Iterable):
        raise ConfigurationError(
            f"enqueue_many takes a list of payloads, not one of type {type(payloads).__name__}; "
            "nothing was written: put it into a list, or call enqueue"
        )
    return payloads


def keys_of(payloads: Sequence[Any], keys: Keys) -> list[str | None]:
    """Return the checked key of each payload."""
    found = _one_for_each("keys", payloads, keys)
    return [None if key is None else checked_name(f"keys[{place}]", key) for place, key in enumerate(found)]


def ages_of(payloads: Sequence[Any], ages: Ages) -> list[float | None]:
    """Return since when each payload has been wanted, checked."""
    return [moment("first_seen_at", age) for age in _one_for_each("first_seen_at", payloads, ages)]


def _one_for_each(what: str, payloads: Sequence[Any], given: Any) -> list[Any]:
    """Return the value that belongs to each payload: from a function of the payload, or from a list."""
    if callable(given):
        return [given(payload) for payload in payloads]
    if isinstance(given, str | bytes | Mapping | AbstractSet) or not isinstance(given, Iterable):
        raise ConfigurationError(
            f"{what} takes a list with one for each payload, or a function of the payload, not one of type "
            f"{type(given).__name__}; nothing was written"
        )
    found = [*given]
    if len(found) != len(payloads):
        raise ConfigurationError(
            f"{what} has {len(found)} entries for {len(payloads)} payloads; nothing was written: give one for each, "
            "None where there is none"
        )
    return found


def check_shared_key(jobs: Sequence[NewJob]) -> None:
    """Refuse one key for different payloads: only the first could have it, and all or none must be stored."""
    prints: dict[str, str | None] = {}
    for job in jobs:
        key = job.idempotency_key
        if key is not None and prints.setdefault(key, job.fingerprint) != job.fingerprint:
            raise ConfigurationError(
                f"idempotency_key {key!r} names one job, and payloads of this call that differ have it; nothing was "
                "written: give each its own key, with keys="
            )
