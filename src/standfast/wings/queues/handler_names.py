"""Which handler a name means."""

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
        """The shortest name that means it for certain."""
        return self.handler if self.queue == self.handler else f"{self.queue}/{self.handler}"


Known = Callable[[str], Awaitable[list[tuple[str, str]]]]
"""Gives the handlers that other processes declared and a name may mean."""


async def meant(handler: object, registry: Registry, elsewhere: Known, queues: Collection[str] | None = None) -> Target:
    """Find the handler that a caller means; what no process declared is taken as a queue's name, as `enqueue` does."""
    return await declared(handler, registry, elsewhere, queues) or _undeclared(str(handler))


async def declared(
    handler: object, registry: Registry, elsewhere: Known, queues: Collection[str] | None = None
) -> Target | None:
    """Find the handler that a caller means: by itself, or by a name that this process knows, or that others do.

    A name is `queue/handler`, a queue's that has one handler or one named like it, or a handler's that is the only one
    so named. With `queues`, handlers of others are not there for the caller, and not named to them.
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
    """Word that a name means no handler, with the nearest of those that the caller may know of."""
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
