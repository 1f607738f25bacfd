"""What a record means here, decided from the record alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, get_args

import msgspec

from standfast.errors import ConfigurationError
from standfast.failure import Class, Failure, Landed, known_code, reason
from standfast.job import QueueReason
from standfast.printable import printable
from standfast.spine.accept import checked_name
from standfast.views import Attempt
from standfast.wings.imports.known_shapes import RETRYABLE, STATES, Profile
from standfast.wings.imports.words import Meaning, Unreadable

MILLISECONDS = 1e11
"""From here on a number counts milliseconds: as seconds it would be after the year 5000."""
LARGEST = 1_000_000
"""A number of attempts, or a priority, beyond this is a mistake."""
LONGEST_MESSAGE = 2000
MOST_HISTORY = 100
"""The most lines of a record's history that are kept: the last ones."""
NEVER_RAN = frozenset({"schema_invalid", "parse_error", "no_workers", "handler_missing", "approval_required"})
"""Reasons which mean that the work was never begun."""
LEASES = ("lease_until", "leased_until", "lease_expires_at", "locked_until")
NO_WORD = "its old store says nothing about why"
LEFT_RUNNING = "it was being worked on when it was imported, so its effect may exist"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One record as a job: the arguments of `enqueue`, and the job's past."""

    meaning: Meaning
    queue: str
    payload: Any
    options: dict[str, Any]
    attempts: int = 0
    landed: Landed | None = None
    failure: Failure | None = None
    ended_at: float | None = None
    history: tuple[Attempt, ...] = ()
    queue_reason: QueueReason = "event"
    result: Any = None

    @property
    def tried(self) -> bool:
        """Whether it will run again after attempts that may have done its work."""
        return self.meaning is Meaning.QUEUED and self.attempts > 0


def plan(
    values: Mapping[str, Any],
    record: Mapping[str, Any],
    profile: Profile,
    states: Mapping[str, Meaning],
    *,
    imported_at: float,
) -> Plan:
    """Decide what a record becomes; raise Unreadable for one that cannot become anything.

    `imported_at` is the time of its last attempt if the record has no time at all.
    """
    queue = _text("queue", values.get("queue"))
    if not queue:
        raise Unreadable("it names no queue; say which one with --queue NAME, or where it stands with --map queue=PATH")
    attempts = _attempts(values, record, profile)
    meaning = _meaning(values, record, profile, {**STATES, **states}, attempts)
    if meaning in {Meaning.IN_DOUBT, Meaning.DEAD}:
        attempts = max(attempts, 1 if meaning is Meaning.IN_DOUBT else 0)
    landed = _landed(values, meaning, attempts)
    failure = _failure(values, meaning, attempts, landed)
    ended_at = moment("ended_at", values.get("ended_at"))
    return Plan(
        meaning=meaning,
        queue=queue,
        payload=values.get("payload"),
        options=_options(values, meaning),
        attempts=attempts,
        landed=landed,
        failure=failure if meaning in {Meaning.IN_DOUBT, Meaning.DEAD} else None,
        ended_at=ended_at,
        history=_history(values, attempts, failure, ended_at or first_seen(values) or imported_at),
        queue_reason=values["queue_reason"] if values.get("queue_reason") in get_args(QueueReason) else "event",
        result=values.get("result"),
    )


# --- state


def _meaning(
    values: Mapping[str, Any],
    record: Mapping[str, Any],
    profile: Profile,
    states: Mapping[str, Meaning],
    attempts: int,
) -> Meaning:
    if values.get("state") is None and not profile.runs_in_rounds:
        return profile.no_state
    word = (_text("state", values.get("state")) or "").lower()
    if profile.runs_in_rounds and _is_queued_op(record):
        return Meaning.IN_DOUBT if any(record.get(name) for name in LEASES) else Meaning.QUEUED
    if word not in states:
        raise Unreadable(f"its state {word!r} is unknown; say what it means with --state {word or 'WORD'}=queued")
    if profile.failed_is_retried and word in RETRYABLE and attempts < (_whole(values, "max_attempts") or 0):
        return Meaning.QUEUED
    return states[word]


def _is_queued_op(record: Mapping[str, Any]) -> bool:
    """Return whether an op record waits to run: older records use another name for it."""
    return bool(record.get("queued", record.get("queued_for_retry", False)))


def _attempts(values: Mapping[str, Any], record: Mapping[str, Any], profile: Profile) -> int:
    """Count a record's attempts. An op that is queued for a retry was called at least once."""
    known = _whole(values, "attempts")
    if known is not None:
        return max(0, known)
    history = values.get("history")
    lines = len(history) if isinstance(history, list) else 0
    was_called = profile.runs_in_rounds and _is_queued_op(record) and record.get("queue_reason", "retry") == "retry"
    return max(lines, 1) if was_called else lines


# --- failure


def _landed(values: Mapping[str, Any], meaning: Meaning, attempts: int) -> Landed | None:
    """Say whether the effect may exist. A record that was tried and says nothing else may have had its effect."""
    if meaning is Meaning.IN_DOUBT:
        return Landed.MAYBE
    said = str(values.get("landed"))
    if said in {*Landed}:
        return Landed(said)
    if meaning is Meaning.FINISHED or (attempts == 0 and meaning is Meaning.QUEUED):
        return None
    return Landed.NO if attempts == 0 or _code(values) in NEVER_RAN else Landed.MAYBE


def _code(values: Mapping[str, Any]) -> str | None:
    given = _text("reason_code", values.get("reason_code"))
    return None if not given else known_code(checked_name("reason_code", given))


def _failure(values: Mapping[str, Any], meaning: Meaning, attempts: int, landed: Landed | None) -> Failure | None:
    """Word the last failure of a record that failed."""
    if meaning is Meaning.FINISHED or (meaning is Meaning.QUEUED and attempts == 0):
        return None
    message = _message(values.get("message"))
    kind = _text("error_kind", values.get("error_kind"))
    if meaning is Meaning.IN_DOUBT:
        code, cause = "unknown_commit_state", _code(values)
        message = f"{LEFT_RUNNING}: {message}" if message else LEFT_RUNNING
    else:
        code, cause = _code(values) or _usual_code(values, meaning, attempts), None
    why = reason(code)
    return Failure(
        cls=why.cls if meaning is not Meaning.QUEUED else Class.UNKNOWN,
        landed=landed or Landed.MAYBE,
        reason_code=code,
        cause=cause,
        error_kind=kind and printable(kind)[:200],
        message=message or NO_WORD,
        advice=why.advice,
    )


def _usual_code(values: Mapping[str, Any], meaning: Meaning, attempts: int) -> str:
    most = _whole(values, "max_attempts")
    exhausted = meaning is Meaning.DEAD and attempts > 0 and (most is None or attempts >= most)
    return "max_attempts" if exhausted else "unclassified_error"


def _message(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return printable(text)[:LONGEST_MESSAGE]


def _history(
    values: Mapping[str, Any], attempts: int, failure: Failure | None, otherwise_at: float
) -> tuple[Attempt, ...]:
    """Keep the record's own history, or write one line for its last attempt; `otherwise_at` if a line has no time."""
    given = values.get("history")
    lines = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    numbered = enumerate(lines, start=1)
    kept = tuple(_line(each, number, otherwise_at) for number, each in numbered)[-MOST_HISTORY:]
    if kept or failure is None or attempts == 0:
        return kept
    last = Attempt(
        attempt=attempts,
        at=datetime.fromtimestamp(otherwise_at, UTC),
        cls=failure.cls,
        landed=failure.landed,
        reason_code=failure.reason_code,
        error_kind=failure.error_kind,
        message=failure.message,
    )
    return (last,)


def _line(entry: Mapping[str, Any], number: int, otherwise_at: float) -> Attempt:
    named = next((entry[name] for name in ("at", "timestamp", "failed_at", "time") if entry.get(name)), None)
    at = moment("history", named) or otherwise_at
    attempt = entry.get("attempt")
    code = _text("reason_code", entry.get("reason_code"))
    kind = _text("error_kind", entry.get("error_kind"))
    return Attempt(
        attempt=attempt if isinstance(attempt, int) and attempt > 0 else number,
        at=datetime.fromtimestamp(at, UTC),
        cls=Class.UNKNOWN,
        landed=Landed.MAYBE,
        reason_code=known_code(printable(code)[:200]) if code else "unclassified_error",
        error_kind=kind and printable(kind)[:200],
        message=_message(entry.get("error", entry.get("message"))),
    )


# --- the job's own options


def _options(values: Mapping[str, Any], meaning: Meaning) -> dict[str, Any]:
    """Return the arguments of `enqueue`."""
    names = ("handler", "idempotency_key", "thread_key", "session", "requester", "risk")
    found: dict[str, Any] = {name: text for name in names if (text := _text(name, values.get(name)))}
    most, lease = _whole(values, "max_attempts"), values.get("lease")
    found |= {"priority": _whole(values, "priority"), "labels": _labels(values.get("labels"))}
    found |= {"first_seen_at": first_seen(values), "attempts": None if most is None else max(1, most)}
    found["lease"] = max(1.0, float(lease)) if isinstance(lease, int | float) else None
    if meaning is Meaning.QUEUED:
        found["at"] = moment("due_at", values.get("due_at"))
    return {name: value for name, value in found.items() if value is not None}


def first_seen(values: Mapping[str, Any]) -> float | None:
    """Return since when the work is wanted."""
    return moment("first_seen_at", values.get("first_seen_at"))


def _labels(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Unreadable(f"its labels are {value!r:.80} and not names with values")
    return {printable(str(name)): _message(each)[:200] for name, each in value.items() if each is not None} or None


def _text(what: str, value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise Unreadable(f"its {what} is {value!r:.80} and not text")


def _whole(values: Mapping[str, Any], what: str) -> int | None:
    value = values.get(what)
    if value is None:
        return None
    try:
        number = int(value) if not isinstance(value, bool) else None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or (isinstance(value, float) and number != value) or abs(number) > LARGEST:
        raise Unreadable(f"its {what} is {value!r:.80} and not a whole number of a sensible size")
    return number


def moment(what: str, value: Any) -> float | None:
    """Read a time: seconds or milliseconds since 1970, or ISO 8601, which is UTC if it names no zone."""
    if value is None or value == "":
        return None
    try:
        seconds = _seconds(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise Unreadable(
            f"its {what} is {value!r:.80}, which is not a time; write seconds since 1970, or ISO 8601"
        ) from error
    return max(0.0, seconds / 1000 if seconds >= MILLISECONDS else seconds)


def _seconds(value: Any) -> float:
    if isinstance(value, str):
        try:
            return _finite(float(value))
        except ValueError:
            found = datetime.fromisoformat(value.strip())
            return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool):
        raise TypeError(value)
    return _finite(float(value))


def _finite(number: float) -> float:
    if not -MILLISECONDS < number < MILLISECONDS * 1000:
        raise ValueError(number)
    return number


def meanings(given: Mapping[str, str]) -> dict[str, Meaning]:
    """Read the `--state WORD=MEANING` options."""
    for meaning in given.values():
        if meaning not in {*Meaning}:
            raise ConfigurationError.unknown("meaning of a state", meaning, [each.value for each in Meaning])
    return {word.lower(): Meaning(meaning) for word, meaning in given.items()}
