"""Poolers between the product and PostgreSQL that hand out server sessions by the transaction.

`Switching` is one of our own: each client has two sessions, and every transaction is served by the other one.
`pgbouncer()` is the real one, where it is installed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.faults.nursery import until

ENCRYPTION_REQUESTS = (80877103, 80877104)
CONFIGURATION = """
[databases]
* = host={server} port=5432 user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
logfile = {place}/log
server_reset_query_always = 0
"""
NAMED = "STANDFAST_TEST_PGBOUNCER"
"""The variable that names the program, where it is not installed as usual."""


def _through(url: str, port: int) -> tuple[str, str]:
    """Give the directory of the server's socket, and the URL that leads through a port of this machine."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    server = query.pop("host")
    netloc = f"{parts.username}@127.0.0.1:{port}"
    return server, parts._replace(netloc=netloc, query=urlencode(query, safe="/")).geturl()


class Switching:
    """Serves each transaction of a client by another session than the one before."""

    def __init__(self, url: str) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        server, self.url = _through(url, self._listener.getsockname()[1])
        self._target = str(Path(server) / ".s.PGSQL.5432")

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            startup = _startup(client)
            sessions = [self._session(startup) for _ in range(2)]
            for _, greeting in sessions[:1]:
                client.sendall(_with_a_number_of_its_own(greeting))
            servers = [server for server, _ in sessions]
            try:
                while True:
                    _transaction(client, servers[0])
                    servers.reverse()
            finally:
                for server in servers:
                    server.close()

    def _session(self, startup: bytes) -> tuple[socket.socket, bytes]:
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._target)
        server.sendall(startup)
        greeting = b""
        while True:
            kind, message = _message(server)
            greeting += message
            if kind == b"Z":
                return server, greeting


def _transaction(client: socket.socket, server: socket.socket) -> None:
    """Pass messages back and forth until the session is out of any transaction."""
    while True:
        kind, message = _message(client)
        server.sendall(message)
        if kind not in b"QSF":
            continue
        answer, answers = b"", b""
        while answer != b"Z":
            answer, message = _message(server)
            answers += message
        client.sendall(answers)
        if answers[-1:] == b"I":
            return


def _with_a_number_of_its_own(greeting: bytes) -> bytes:
    """Give the client another session number than the server's, as poolers do."""
    place = 0
    while greeting[place : place + 1] != b"K":
        place += 1 + struct.unpack("!I", greeting[place + 1 : place + 5])[0]
    return greeting[: place + 5] + os.urandom(4) + greeting[place + 9 :]


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise ConnectionError
        data += more
    return data


def _message(connection: socket.socket) -> tuple[bytes, bytes]:
    head = _exactly(connection, 5)
    return head[:1], head + _exactly(connection, struct.unpack("!I", head[1:])[0] - 4)


def _startup(client: socket.socket) -> bytes:
    """Read how the client begins, and tell it that nothing is encrypted here."""
    while True:
        head = _exactly(client, 4)
        rest = _exactly(client, struct.unpack("!I", head)[0] - 4)
        if struct.unpack("!I", rest[:4])[0] not in ENCRYPTION_REQUESTS:
            return head + rest
        client.sendall(b"N")


def installed() -> str | None:
    """Give the path of PgBouncer, if there is one."""
    usual = "/usr/sbin/pgbouncer"
    return os.environ.get(NAMED) or shutil.which("pgbouncer") or (usual if os.access(usual, os.X_OK) else None)


@contextmanager
def pgbouncer(url: str, place: Path, size: int = 4) -> Iterator[str]:
    """Start PgBouncer in transaction mode; give the URL through it."""
    program = installed()
    assert program is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server, through = _through(url, port)
    nobody = {} if os.geteuid() else {"user": pwd.getpwnam("nobody").pw_uid}
    place.chmod(0o777)
    for parent in place.parents:
        with suppress(OSError):
            parent.chmod(parent.stat().st_mode | 0o011) if parent.stat().st_uid == os.geteuid() else None
    configuration = place / "pgbouncer.ini"
    configuration.write_text(CONFIGURATION.format(server=server, port=port, size=size, place=place))
    libraries = str(Path(program).parents[1] / "lib" / "x86_64-linux-gnu")
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
    process = subprocess.Popen([program, str(configuration)], env=environment, stderr=subprocess.DEVNULL, **nobody)  # type: ignore[call-overload]
    try:
        until(lambda: _listens(port))
        yield through
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
