"""Hosts of their own on one machine, and a PostgreSQL that they reach over links that can be cut.

    with some_hosts(3) as hosts:
        hosts.how                                   how they were made, in words
        hosts.server                                the server; `with hosts.beside_the_server():` to start it again
        hosts.url(0)                                its URL, as the first host has it
        hosts.spawn(children, 0, role, …)           a child on the first host
        hosts.cut(0); hosts.mend(0)                 nothing passes, and nobody is told

Each host is a network namespace with one link to the server's, and none to anywhere else: what is sent there cannot
leave it. None has a name, so that none is left behind, however the test ends. Where no namespace can be made, a host
is a process that reaches the server through a proxy of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from threading import Thread
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from tests.faults import elsewhere
from tests.faults.nursery import Child, Nursery, until
from tests.faults.proxy import Proxy
from tests.postgres import STANDBY, PostgresServer, connect

NEW_NETWORK = 0x40000000
"""CLONE_NEWNET."""
SERVER = "192.0.2.1"
"""Of a network that is kept for examples: nobody anywhere has such an address."""


class Hosts(ABC):
    """So many hosts, and the server on one of its own."""

    how: str
    address: str
    """Where the hosts reach what runs beside the server."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self._make(undo)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    server: PostgresServer

    @abstractmethod
    def _make(self, undo: ExitStack) -> None: ...

    @abstractmethod
    def url(self, host: int) -> str:
        """Give the server's URL, as one host has it."""

    @abstractmethod
    def beside_the_server(self) -> AbstractContextManager[object]:
        """Have whatever is started inside run on the server's host."""

    @abstractmethod
    def spawn(self, children: Nursery, host: int, role: Callable[..., Any], *arguments: Any) -> Child:
        """Have a child play a role of `elsewhere` on one host."""

    @abstractmethod
    def cut(self, host: int) -> None:
        """Cut a host off."""

    @abstractmethod
    def mend(self, host: int) -> None:
        """Connect it again."""


def some_hosts(count: int, *, plain: bool = False) -> Hosts:
    """Make hosts as well as can be done here, or the plain way."""
    return Proxied(count) if plain or not Namespaces.can_be_made() else Namespaces(count)


# --- namespaces


class Namespaces(Hosts):
    """A namespace for each host, joined by a bridge in the server's."""

    how = "network namespaces joined by a bridge"
    address = SERVER

    @staticmethod
    def can_be_made() -> bool:
        """Tell whether this user may, and this machine can."""
        try:
            with ExitStack() as undo:
                _network(1, undo)
        except (OSError, subprocess.CalledProcessError):
            return False
        return True

    def _make(self, undo: ExitStack) -> None:
        self._hub, *self._hosts = _network(self._count, undo)
        with self.beside_the_server():
            self.server = undo.enter_context(PostgresServer(listen=SERVER))

    def url(self, host: int) -> str:  # noqa: ARG002 - they all reach it alike
        return f"postgresql://postgres@{SERVER}/postgres"

    def beside_the_server(self) -> AbstractContextManager[object]:
        return _inside(self._hub)

    def spawn(self, children: Nursery, host: int, role: Callable[..., Any], *arguments: Any) -> Child:
        return children.spawn(elsewhere.on_a_host, _path(self._hosts[host]), role.__name__, *arguments)

    def cut(self, host: int) -> None:
        _configure(self._hub, f"link set host{host} down")

    def mend(self, host: int) -> None:
        _configure(self._hub, f"link set host{host} up")


def _network(count: int, undo: ExitStack) -> list[int]:
    """Make the server's namespace and those of the hosts; each is there for as long as its descriptor or a process."""
    if shutil.which("ip") is None:
        raise FileNotFoundError("ip")
    hub, *hosts = made = [_namespace(undo) for _ in range(1 + count)]
    _configure(hub, "link set lo up", "link add bridge type bridge", f"addr add {SERVER}/24 dev bridge")
    _configure(hub, "link set bridge up")
    for number, host in enumerate(hosts):
        link = f"link add host{number} type veth peer name eth0 netns {_path(host)}"
        _configure(hub, link, f"link set host{number} master bridge up")
        _configure(host, "link set lo up", f"addr add 192.0.2.{number + 11}/24 dev eth0", "link set eth0 up")
    return made


def _namespace(undo: ExitStack) -> int:
    made: list[int] = []

    def leave() -> None:
        if not elsewhere.LIBC.unshare(NEW_NETWORK):
            made.append(_present())

    thread = Thread(target=leave)  # it alone leaves where it was, and ends
    thread.start()
    thread.join()
    if not made:
        raise PermissionError("unshare")
    undo.callback(os.close, made[0])
    return made[0]


def _present() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _path(namespace: int) -> str:
    """Name a namespace to other processes."""
    return f"/proc/{os.getpid()}/fd/{namespace}"


@contextmanager
def _inside(namespace: int) -> Iterator[None]:
    """Have this thread, and what it starts meanwhile, be in a namespace."""
    here = _present()
    try:
        elsewhere.enter(namespace)
        yield
    finally:
        elsewhere.enter(here)
        os.close(here)


def _configure(namespace: int, *commands: str) -> None:
    with _inside(namespace):
        words = "\n".join(commands)
        subprocess.run(["ip", "-batch", "-"], input=words, text=True, capture_output=True, check=True)  # noqa: S607


# --- proxies


class Proxied(Hosts):
    """A proxy for each host, on the loopback address."""

    how = "processes, each behind a proxy of its own"
    address = "127.0.0.1"

    def _make(self, undo: ExitStack) -> None:
        self.server = undo.enter_context(PostgresServer())
        self._links = [undo.enter_context(Proxy(self.server.url)) for _ in range(self._count)]

    def url(self, host: int) -> str:
        return self._links[host].url

    def beside_the_server(self) -> AbstractContextManager[object]:
        return nullcontext()

    def spawn(self, children: Nursery, host: int, role: Callable[..., Any], *arguments: Any) -> Child:  # noqa: ARG002
        return children.spawn(role, *arguments)

    def cut(self, host: int) -> None:
        self._links[host].fall_silent()

    def mend(self, host: int) -> None:
        self._links[host].heal()


# --- a primary and its standby


class Pair(Hosts):
    """Plain processes that are told of two servers: one follows the other, and has all that it acknowledges."""

    how = "processes beside a primary and its standby"
    address = "127.0.0.1"

    def __init__(self, count: int, *, silent: bool) -> None:
        super().__init__(count)
        self._silent = silent
        """Whether the primary is lost by falling silent, not by a crash that everybody sees at once."""

    def _make(self, undo: ExitStack) -> None:
        self.server = undo.enter_context(PostgresServer())
        self.standby = undo.enter_context(PostgresServer(copies=self.server))
        self._link = undo.enter_context(Proxy(self.server.url))
        with connect(self.server.url) as connection:
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'".encode())
            connection.execute("SELECT pg_reload_conf()")
            state = "SELECT sync_state FROM pg_stat_replication"
            until(lambda: connection.execute(state).fetchall() == [("sync",)])

    def url(self, host: int) -> str:  # noqa: ARG002 - they all are told of both
        primary = urlsplit(self._link.url)
        query = urlencode(
            {"host": f"{primary.hostname},{self.standby.host}", "port": f"{primary.port},5432"}, safe="/,"
        )
        return f"postgresql://postgres@/postgres?{query}&target_session_attrs=read-write"

    def beside_the_server(self) -> AbstractContextManager[object]:
        return nullcontext()

    def spawn(self, children: Nursery, host: int, role: Callable[..., Any], *arguments: Any) -> Child:  # noqa: ARG002
        return children.spawn(role, *arguments)

    def cut(self, host: int) -> None:
        raise NotImplementedError

    def mend(self, host: int) -> None:
        raise NotImplementedError

    def lose_the_primary(self) -> None:
        """Have it gone, as everybody sees or as nobody is told."""
        if self._silent:
            self._link.fall_silent()
        else:
            self.server.stop("immediate")

    def fail_over(self) -> None:
        """Have the standby take its place."""
        self.lose_the_primary()
        self.standby.promote()
        self.server = self.standby
