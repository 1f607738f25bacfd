"""Finds out which handler a name means."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import NamedTuple

from standfast.errors import ConfigurationError, UnknownHandler, UnreachedHandler
from standfast.spine.accept import checked_name
from standfast.spine.registry import Handler, Registry


class Target(NamedTuple):
    """A handler, by its queue and name."""

    queue: str
    handler: str

    @property
    def shown(self) -> str:
        """The shortest name that certainly means this handler."""
        return self.handler if self.queue == self.handler else f"{self.queue}/{self.handler}"


Known = Callable[[str], Awaitable[list[tuple[str, str]]]]
"""Returns the handlers of other processes that a name may mean."""


async def meant(handler: object, registry: Registry, elsewhere: Known, queues: Collection[str] | None = None) -> Target:
    """Find the handler that a caller means; take an undeclared name as a queue's, as `enqueue` does."""
    return await declared(handler, registry, elsewhere, queues) or _undeclared(str(handler))


async def declared(
    handler: object, registry: Registry, elsewhere: Known, queues: Collection[str] | None = None
) -> Target | None:
    """Find the handler that a caller means: given itself, or by a name that this or another process declared.

    A name is `queue/handler`, the name of a queue with one handler or with one named like the queue, or the unique name
    of a handler. With `queues`, handlers of other queues do not exist for the caller, and no error names them.
    """
    if isinstance(handler, Handler):
        return Target(handler.queue, handler.name)
    name = checked_name("handler", handler)
    queue, _, last = name.rpartition("/")
    built_in = Target(queue, last) if queue and last in registry.built_in else None
    return _chosen(name, _of(registry), queues) or built_in or _chosen(name, await elsewhere(name), queues)


def unknown(
    name: object, registry: Registry, published: Iterable[tuple[str, str]], queues: Collection[str] | None = None
) -> UnknownHandler:
    """Return the error for a name that means no handler, with the nearest names that the caller may know."""
    known = {Target(*each) for each in (*_of(registry), *published)}
    names = [each.shown for each in known if queues is None or each.queue in queues]
    return (UnknownHandler if queues is None else UnreachedHandler).for_name(str(name), names)


def _of(registry: Registry) -> list[tuple[str, str]]:
    return [(each.queue, each.name) for each in registry.declarations()]


def _chosen(name: str, declared: Iterable[tuple[str, str]], queues: Collection[str] | None) -> Target | None:
    known = [Target(*each) for each in declared if queues is None or each[0] in queues]
    ways = (
        [each for each in known if f"{each.queue}/{each.handler}" == name],
        [each for each in known if each == (name, name)],
        [each for each in known if each.queue == name],
        [each for each in known if each.handler == name],
    )
    found = next((way for way in ways if way), [])
    if len(found) > 1:
        several = ", ".join(sorted(f"{each.queue}/{each.handler}" for each in found))
        raise ConfigurationError(f"{name!r} can mean {several}; nothing was written: name one of them")
    return found[0] if found else None


def _undeclared(name: str) -> Target:
    queue, _, handler = name.partition("/")
    return Target(queue, handler) if queue and handler else Target(name, name)
