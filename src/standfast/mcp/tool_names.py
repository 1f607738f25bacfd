"""The name of a handler's tool: the handler's own name, or if that is taken, with its queue's name before it.

Model APIs accept letters, digits, `_` and `-`, at most 64 characters; any other character becomes `_`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable

LONGEST = 64
MARK = 6
"""Hexadecimal digits that distinguish two names which would otherwise be the same."""

Address = tuple[str, str]
"""A handler's queue and name."""
_refused = re.compile(r"[^A-Za-z0-9_-]")


def tool_names(handlers: Iterable[Address], taken: Collection[str]) -> dict[str, Address]:
    """Name the tools of handlers, all different from one another and from `taken`."""
    own = {each: _cut(each, _refused.sub("_", each[1])) for each in handlers}
    free = _unmistakable(own, taken)
    prefixed = {each: _cut(each, _refused.sub("_", f"{each[0]}_{each[1]}")) for each in own if each not in free}
    free |= _unmistakable(prefixed, {*taken, *free.values()})
    marked = {each: _marked(each, name) for each, name in prefixed.items() if each not in free}
    return {name: each for each, name in (free | marked).items()}


def _unmistakable(names: dict[Address, str], taken: Collection[str]) -> dict[Address, str]:
    """Return the names that belong to exactly one handler."""
    counted = Counter(names.values())
    return {each: name for each, name in names.items() if counted[name] == 1 and name not in taken}


def _cut(handler: Address, name: str) -> str:
    return name if len(name) <= LONGEST else _marked(handler, name)


def _marked(handler: Address, name: str) -> str:
    digest = hashlib.sha256("/".join(handler).encode()).hexdigest()[:MARK]
    return f"{name[: LONGEST - MARK - 1]}_{digest}"
