"""Health checks of dependencies: a function that says yes, or a URL that answers 2xx. Asking changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from standfast.concurrency.threads import with_timeout
from standfast.concurrency.user_code import call_user_code
from standfast.errors import ConfigurationError
from standfast.printable import printable
from standfast.wings.http.sender import Sender
from standfast.wings.http.words import HttpRequest

Probe = str | Callable[[], Any]
"""A URL, or a function without arguments, plain or async, that returns True; text or a collection is not a yes."""
Requires = Probe | Sequence[Probe]
"""What `requires=` takes: probes, each a function that says yes or a URL that answers 2xx."""
LONGEST_ANSWER = 10.0
"""Seconds a probe may take to answer; then it says no."""
LONGEST_WORDS = 200


def checked_probes(requires: Any) -> tuple[Probe, ...]:
    """Check the value of `requires=`: one probe or several, each a function or a URL."""
    found = requires if isinstance(requires, Sequence) and not isinstance(requires, str) else (requires,)
    for probe in found:
        check_probe(probe)
    return tuple(found)


def check_probe(probe: Probe) -> None:
    """Refuse a probe that cannot be asked, before a job waits for it."""
    if callable(probe):
        return
    if not isinstance(probe, str):
        raise ConfigurationError(f"a probe is a function or a URL, not {probe!r}")
    try:
        HttpRequest("GET", probe)
    except ValueError as error:
        raise ConfigurationError(f"probe {probe!r} cannot be called: {error}") from error


async def says_no(probe: Probe, sender: Sender, seconds: float = LONGEST_ANSWER) -> str | None:
    """Ask once; return why the dependency is not up, or None if it is. An error while asking counts as a no."""
    asking = with_timeout(_answer(probe, sender, seconds), seconds)
    [answer] = await asyncio.gather(asking, return_exceptions=True)
    if isinstance(answer, TimeoutError):
        return f"no answer within {seconds:g} s"
    if isinstance(answer, BaseException):
        return printable(f"{type(answer).__name__}: {answer}"[:LONGEST_WORDS])
    return answer


async def _answer(probe: Probe, sender: Sender, seconds: float) -> str | None:
    if isinstance(probe, str):
        reply = await sender.ask(probe, seconds)
        return f"HTTP {reply.status}" if reply.refuses else None
    answer = await call_user_code(probe)
    unclear = isinstance(answer, str | tuple | list | dict)  # `(False, "down")` is truthy, but means no
    return None if answer and not unclear else printable(f"it said {answer!r}"[:LONGEST_WORDS])
