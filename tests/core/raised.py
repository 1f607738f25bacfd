"""Exceptions as handlers and their libraries raise them, and a failure in one line."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import httpx2
import pydantic

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


HOMES = {
    "aiohttp": ("aiohttp", "aiohttp.http_exceptions"),
    "asyncio": ("asyncio",),
    "asyncpg": ("asyncpg.exceptions",),
    "concurrent": ("concurrent.futures",),
    "http": ("http.client",),
    "psycopg": ("psycopg", "psycopg.errors"),
    "requests": ("requests.exceptions",),
    "standfast": ("standfast.wings.http.broken",),
    "urllib": ("urllib.error",),
    "urllib3": ("urllib3.exceptions",),
}
"""Where a family keeps its exceptions, if not in the package of its name."""


def real_classes(name: str, relatives: Sequence[str] = ()) -> list[type[BaseException]]:
    """Give the classes that a row means, of its library and of those that bear the same names; there must be one."""
    package, _, class_name = name.partition(".")
    homes = [import_module(home) for each in (package, *relatives) for home in HOMES.get(each, (each,))]
    found: list[Any] = [vars(home)[class_name] for home in homes if class_name in vars(home)]
    assert found, f"{name} is nowhere"
    return found


def bare(kind: type[BaseException]) -> BaseException:
    """Make an exception of a class as it is before its library tells it what happened."""
    if kind.__module__ == "pydantic_core._pydantic_core":
        return misread()
    return kind.__new__(kind)


def misread() -> pydantic.ValidationError:
    """Give pydantic's, which only it can make."""
    try:
        pydantic.TypeAdapter(int).validate_python("x")
    except pydantic.ValidationError as error:
        return error
    raise AssertionError


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


class Escaping(BaseException):
    """What code that catches every Exception lets through."""


def _raises(error: BaseException) -> Any:
    def broken(*_given: object) -> Any:
        raise error

    return broken


class _Unsliceable(str):
    __slots__ = ()
    __getitem__ = _raises(RuntimeError("no part"))


class _Nameless(type):
    __module__ = property(_raises(RuntimeError("no module")))
    __name__ = property(_raises(RuntimeError("no name")))


class _NamelessError(Exception, metaclass=_Nameless):
    pass


def hostile() -> dict[str, BaseException]:
    """Give exceptions that resist being looked at; nothing of it may keep a failure from being told."""
    parts: dict[str, dict[str, Any]] = {
        "no text": {"__str__": _raises(RuntimeError("no text"))},
        "text that exits": {"__str__": _raises(SystemExit(3))},
        "text that escapes": {"__str__": _raises(Escaping())},
        "text that is a number": {"__str__": lambda _self: 5},
        "text that cannot be cut": {"__str__": lambda _self: _Unsliceable("hello")},
        "kind that cannot be cut": {"error_kind": _Unsliceable("hello")},
        "attributes that escape": dict.fromkeys(("error_kind", "status_code", "errno"), property(_raises(Escaping()))),
        "no cause": {"__cause__": property(_raises(RuntimeError("no cause")))},
        "no hash": {"__hash__": None, "__eq__": _raises(RuntimeError("not equal"))},
        "a status without end": {"status_code": 10**400},
    }
    group = type("Group", (ExceptionGroup,), {"exceptions": property(_raises(RuntimeError("no members")))})
    made: dict[str, BaseException] = {name: type("Hostile", (Exception,), given)() for name, given in parts.items()}
    return made | {"no members": group("group", [ValueError()]), "no name": _NamelessError()}
