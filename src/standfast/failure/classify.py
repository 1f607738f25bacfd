"""How did it fail? Judge an exception, an HTTP status or a handler's result by evidence."""

from __future__ import annotations

import inspect
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from standfast.concurrency.guarded import call_guarded
from standfast.errors import HandlerFailure
from standfast.failure import Class, Failure, Landed, known_code, reason
from standfast.failure.error_reply import (
    DEEPEST,
    MOST_LOOKED_AT,
    REFUSES_FOR_NOW,
    as_wait,
    refusal_in,
    status_of,
    wait_of,
)
from standfast.failure.evidence import (
    FORGOTTEN,
    HANDLERS,
    RATE_LIMITED,
    UNCERTAIN,
    UNCLASSIFIED,
    UNVERIFIED,
    Judgement,
    attribute,
    judge_kind,
    judge_service,
    judge_status,
    judge_type,
    type_names,
)
from standfast.failure.traceback_text import RemoteTraceback
from standfast.outcome import Failed
from standfast.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONGEST_MESSAGE = 2000
LONGEST_LABEL = 200
MEMBERS_TOLD = 10

_WORST_FIRST = (Class.UNKNOWN, Class.TRANSIENT, Class.PERMANENT)
_SUCCESS = range(200, 300)
_LOWEST = 100
_FAILURE = range(300, 600)
STATUS_KEYS = ("status_code", "http_status", "status")
"""The keys under which a result may have the HTTP status that it reports."""

JUDGED = "standfast_judged"
"""The attribute of an exception that was already judged, by code that knows more than its type: a Failed."""

T = TypeVar("T")


class RaisedElsewhere(Exception):
    """An exception that a handler raised in another process, judged there; its cause has the traceback."""

    def __init__(self, failed: Failed, trace: str) -> None:
        super().__init__(failed.failure.summary)
        self.failed = failed
        self.__cause__ = RemoteTraceback(trace)


def of_exception(error: BaseException) -> Failed:
    """Judge what a handler raised: by itself, by its members if it is a group, then by what it wraps.

    The nearest exception with any evidence decides, by (in this order) `Transient`, `Permanent` or `Uncertain`, its
    `error_kind` if that is known, its HTTP status, its type. If none has evidence, it is unclassified: unknown, and it
    may have landed.
    """
    if isinstance(error, RaisedElsewhere):
        return error.failed
    judged = attribute(error, JUDGED)
    if isinstance(judged, Failed):
        return judged
    found = _ask(lambda: _evidence(error, iter(range(MOST_LOOKED_AT))), None)
    found = found or _failed(UNCLASSIFIED, _own_kind(error) or _name(error), wait_of(error))
    found = _with_refusal(found, refusal_in(error))
    return replace(found, failure=replace(found.failure, message=_message(error)))


def _with_refusal(failed: Failed, wait: float | None) -> Failed:
    """Respect a receiver that refused for now and said when to come back; a time set by the handler comes first."""
    if wait is None or failed.failure.cls is Class.PERMANENT:
        return failed
    return replace(failed, retry_after=wait if failed.retry_after is None else failed.retry_after, refused=True)


def of_http(status: int, retry_after: float | None = None) -> Failed | None:
    """Judge a reply by its status; None means success (2xx)."""
    if status in _SUCCESS:
        return None
    failed = _failed(judge_status(status), f"http_{status}", as_wait(retry_after), f"HTTP {status}")
    return _with_refusal(failed, failed.retry_after if status in REFUSES_FOR_NOW else None)


TELLING = frozenset({"error_kind", "error", "success", "verified"})
"""The keys of results that may report a failure; a result without any of them reports none."""


def of_result(result: object) -> Failed | None:
    """Judge what a handler returned; None means success. A dict can report a failure that was not raised.

    A result that cannot be read reports none: a result never fails a finished attempt.
    """
    return _ask(lambda: _of_dict(result), None) if isinstance(result, dict) else None


def _of_dict(result: dict[Any, Any]) -> Failed | None:
    kind, unverified = _label(result.get("error_kind")), _unverified(result)
    judgement = _judge_result(result, kind, unverified=bool(unverified))
    if judgement is None:
        return None
    texts = (result.get("error"), result.get("message"), unverified)
    message = next((_text(words) for words in texts if _truthy(words)), "")
    failed = _failed(judgement, kind, as_wait(result.get("retry_after")), message)
    failed = _with_refusal(failed, failed.retry_after if judgement.reason_code == RATE_LIMITED.reason_code else None)
    return replace(failed, said=True, doubts=_doubted(result)) if unverified else failed


def of_unfinished(result: object) -> Failed | None:
    """Judge a result that is unfinished work: a forgotten `await`, or a generator. None means that it is finished.

    The handler itself was entered, and a task may be in progress, so the effect may have landed.
    """
    inside = result.values() if isinstance(result, dict) else result if isinstance(result, list | tuple) else ()
    unfinished = [each for each in (result, *inside) if _is_unfinished(each)]
    if not unfinished:
        return None
    for each in unfinished:
        if isinstance(each, CoroutineType):
            each.close()  # or Python warns about what is reported here
    kind = type(unfinished[0]).__name__
    name = _text(attribute(unfinished[0], "__qualname__") or kind)
    message = f"the handler returned {kind} {name}, which was never run or awaited: is an `await` missing?"
    return _failed(FORGOTTEN, kind, message=message)


def _is_unfinished(value: object) -> bool:
    return inspect.isawaitable(value) or isinstance(value, GeneratorType | AsyncGeneratorType)


def _evidence(error: BaseException, looks: Iterator[int], path: tuple[int, ...] = ()) -> Failed | None:
    """Look for evidence in an exception or in what it consists of; `looks` limits how many are examined in all."""
    if len(path) >= DEEPEST or id(error) in path or next(looks, None) is None:
        return None
    path = (*path, id(error))
    found = _own_evidence(error) or _of_members(error, looks, path) or _of_wrapped(error, looks, path)
    return found and _with_own_kind(found, error)


def _with_own_kind(failed: Failed, error: BaseException) -> Failed:
    """Keep the kind that an exception names, whatever other evidence judged it."""
    kind = _own_kind(error)
    return failed if kind is None else replace(failed, failure=replace(failed.failure, error_kind=kind))


def _own_kind(error: BaseException) -> str | None:
    return _label(attribute(error, "error_kind"))


def _own_evidence(error: BaseException) -> Failed | None:
    found = _by_handler(error) or _by_kind(error) or _by_status(error) or _by_type(error)
    if found is None or found.retry_after is not None:
        return found
    return replace(found, retry_after=wait_of(error))


def _by_handler(error: BaseException) -> Failed | None:
    judgement = next((HANDLERS[base] for base in type(error).__mro__ if base in HANDLERS), None)
    if judgement is None or not isinstance(error, HandlerFailure):
        return None
    kind, code = _label(error.error_kind), _code(error.reason_code)
    known = next((found for word in (kind, code) if word and (found := judge_kind(word))), judgement)
    # The raised class says whether it landed and whether repeating helps. `Uncertain` leaves the latter to the kind.
    cls = known.cls if judgement is UNCERTAIN else judgement.cls
    judgement = judgement._replace(cls=cls, reason_code=code or known.reason_code)
    return replace(_failed(judgement, kind or _name(error)), said=True)


def _by_kind(error: BaseException) -> Failed | None:
    kind = _own_kind(error)
    judgement = judge_kind(kind) if kind else None
    return judgement and _failed(judgement, kind)


def _by_status(error: BaseException) -> Failed | None:
    status = status_of(error)
    # A success that was raised nevertheless was answered, so its type may say more. Below 100 there was no answer.
    if status is None or status in _SUCCESS or status < _LOWEST or _is_made_up(error):
        return None
    return _failed(judge_service(error) or judge_status(status), _name(error))


def _by_type(error: BaseException) -> Failed | None:
    judgement = judge_type(error)
    return judgement and _failed(judgement, _name(error))


def _of_members(error: BaseException, looks: Iterator[int], path: tuple[int, ...]) -> Failed | None:
    """Judge a group by its worst member: repeating helps unless it helps none, and one `maybe` makes all `maybe`."""
    if not isinstance(error, BaseExceptionGroup):
        return None
    # One more than may be examined is enough: it is unclassified, and nothing is worse.
    some = error.exceptions[: MOST_LOOKED_AT + 1]
    members = [_evidence(member, looks, path) or _failed(UNCLASSIFIED, _name(member)) for member in some]
    worst = min(members, key=_badness)
    waits = [member.retry_after for member in members if member.retry_after is not None]
    found = replace(worst, retry_after=max(waits, default=None))
    return _hedged(found) if any(member.failure.landed is Landed.MAYBE for member in members) else found


def _of_wrapped(error: BaseException, looks: Iterator[int], path: tuple[int, ...]) -> Failed | None:
    if error.__cause__ is not None:
        return _evidence(error.__cause__, looks, path)
    if error.__context__ is None or error.__suppress_context__:
        return None
    found = _evidence(error.__context__, looks, path)
    # Raised while the other one was handled, which was not named as its cause: the handling may have done something.
    return found and _hedged(found)


def _badness(failed: Failed) -> tuple[int, bool]:
    return _WORST_FIRST.index(failed.failure.cls), failed.failure.landed is Landed.NO


def _hedged(failed: Failed) -> Failed:
    return replace(failed, failure=replace(failed.failure, landed=Landed.MAYBE))


def _judge_result(result: dict[Any, Any], kind: str | None, *, unverified: bool) -> Judgement | None:
    if kind is not None:
        judgement = judge_kind(kind) or _judge_returned_status(result) or (UNVERIFIED if unverified else UNCLASSIFIED)
        return judgement._replace(landed=Landed.MAYBE) if unverified else judgement
    if unverified:
        return UNVERIFIED
    return UNCLASSIFIED if _says_failed(result) else None


def _judge_returned_status(result: dict[Any, Any]) -> Judgement | None:
    """Judge the HTTP status that a result names, if it is a failure's."""
    named = [result[name] for name in STATUS_KEYS if type(result.get(name)) is int]
    return judge_status(named[0]) if named and named[0] in _FAILURE else None


def _says_failed(result: dict[Any, Any]) -> bool:
    success = result.get("success")
    return success is False or (success is not True and _truthy(result.get("error")))


def _unverified(result: dict[Any, Any]) -> str:
    """Name what a result says it could not verify; empty if it says nothing of the kind."""
    verified = result.get("verified", True)
    effects = verified if isinstance(verified, dict) else {"result": verified}
    bad = [f"{_text(name)} ({_text(value)})" for name, value in effects.items() if not _is_verified(value)]
    return f"not verified: {', '.join(bad)}" if bad else ""


def _doubted(result: dict[Any, Any]) -> tuple[str, ...]:
    """Return the effects that a result says it could not verify; empty if it names none, which means all."""
    verified = result.get("verified")
    effects = verified if isinstance(verified, dict) else {}
    return tuple(_text(name) for name, value in effects.items() if not _is_verified(value))


def _is_verified(value: object) -> bool:
    return value is True or (isinstance(value, str) and value == "verified")


def _is_made_up(error: BaseException) -> bool:
    """Return whether aiohttp made this status (400) up: it could not read the reply at all."""
    return error.__cause__ is not None and "aiohttp.HttpProcessingError" in type_names(error.__cause__)


def _failed(judgement: Judgement, kind: str | None, retry_after: float | None = None, message: str = "") -> Failed:
    failure = Failure(
        cls=judgement.cls,
        landed=judgement.landed,
        reason_code=judgement.reason_code,
        error_kind=kind,
        message=message,
        advice=reason(judgement.reason_code, judgement.cls).advice,
    )
    return Failed(failure, retry_after)


def _message(error: BaseException) -> str:
    """Return the exception's text. A group's own text says little, so its members' texts are added."""
    if not isinstance(error, BaseExceptionGroup):
        return _text(error)
    shown: tuple[BaseException, ...] = _ask(lambda: error.exceptions[:MEMBERS_TOLD], ())
    members = "; ".join(f"{_name(member)}: {_text(member)}" for member in shown)
    return f"{_text(error)}: {members}"[:LONGEST_MESSAGE]


def _name(error: object) -> str | None:
    return _ask(lambda: _label(type(error).__name__), None)


def _label(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    return _ask(lambda: printable(value[:LONGEST_LABEL]).strip() or None, None)


def _code(value: object) -> str | None:
    """Read a reason code; another system's name for one of ours becomes ours."""
    label = _label(value)
    return None if label is None else known_code(label)


def _text(value: object) -> str:
    unreadable = f"{_name(value) or 'an exception'} (its text could not be read)"
    return _ask(lambda: printable(str(value)[:LONGEST_MESSAGE]), unreadable)


def _truthy(value: object) -> bool:
    return _ask(lambda: bool(value), otherwise=True)


def _ask(question: Callable[[], T], otherwise: T) -> T:
    """Query a foreign object, whose properties and text may raise: the failure must be reported nevertheless."""
    return call_guarded(question, lambda _error: otherwise)
