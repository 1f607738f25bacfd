"""Exceptions as handlers and their libraries raise them, and a failure in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2

from standfast.failure import reason

if TYPE_CHECKING:
    from standfast.outcome import Failed

UNCLASSIFIED = "unknown maybe unclassified_error"


def told(failed: Failed | None) -> str:
    """Word a failure as the tables do, and see that its advice is the catalogue's."""
    assert failed is not None
    failure = failed.failure
    assert failure.advice == reason(failure.reason_code, failure.cls).advice
    return f"{failure.cls} {failure.landed} {failure.reason_code}"


def foreign(name: str, *bases: type[BaseException], **attributes: object) -> BaseException:
    """Make an exception as a library would that need not be installed here."""
    package, _, class_name = name.partition(".")
    made: type[BaseException] = type(class_name, bases or (Exception,), {"__module__": f"{package}.exceptions"})
    error = made("it broke")
    vars(error).update(attributes)
    return error


class Kind(Exception):
    """An exception that names its kind, and whatever else it carries."""

    def __init__(self, kind: object, **attributes: object) -> None:
        super().__init__("kind")
        self.error_kind = kind
        vars(self).update(attributes)


def raised_for(status: int, headers: dict[str, str] | None = None) -> httpx2.HTTPStatusError:
    request = httpx2.Request("POST", "https://example.com")
    reply = httpx2.Response(status, headers=headers, request=request)
    return httpx2.HTTPStatusError("bad status", request=request, response=reply)


def wrapped(error: BaseException, inner: BaseException) -> BaseException:
    error.__cause__ = inner
    return error


def while_handling(error: BaseException, inner: BaseException) -> BaseException:
    error.__context__ = inner
    return error
