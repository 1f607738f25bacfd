"""What the tool of a handler is called: the handler's own name, or, where that is taken, its queue's name before it.

Models' interfaces take letters, digits, `_` and `-`, at most 64 of them; every other character becomes `_`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable

LONGEST = 64
MARK = 6
"""Hexadecimal digits that tell two names apart which would be one."""

Address = tuple[str, str]
"""A handler's queue and name."""
_refused = re.compile(r"[^A-Za-z0-9_-]")


def tool_names(handlers: Iterable[Address], taken: Collection[str]) -> dict[str, Address]:
    """Name the tools of handlers, each differently from the others and from `taken`."""
    own = {each: _cut(each, _refused.sub("_", each[1])) for each in handlers}
    free = _unmistakable(own, taken)
    prefixed = {each: _cut(each, _refused.sub("_", f"{each[0]}_{each[1]}")) for each in own if each not in free}
    free |= _unmistakable(prefixed, {*taken, *free.values()})
    marked = {each: _marked(each, name) for each, name in prefixed.items() if each not in free}
    return {name: each for each, name in (free | marked).items()}


def _unmistakable(names: dict[Address, str], taken: Collection[str]) -> dict[Address, str]:
    """Give the names that only one handler would have."""
    counted = Counter(names.values())
    return {each: name for each, name in names.items() if counted[name] == 1 and name not in taken}


def _cut(handler: Address, name: str) -> str:
    return name if len(name) <= LONGEST else _marked(handler, name)


def _marked(handler: Address, name: str) -> str:
    digest = hashlib.sha256("/".join(handler).encode()).hexdigest()[:MARK]
    return f"{name[: LONGEST - MARK - 1]}_{digest}"
