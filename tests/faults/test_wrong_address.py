"""A wrong address is not an outage: it is refused at once, and nothing is spooled that would wait for good."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from standfast import ConfigurationError, Receipt, Standfast, StoreUnavailable
from standfast.server.problems import of_error
from standfast.store import store as store_module
from standfast.store.postgres.refusal import is_lasting
from standfast.wings.relay import forwarder
from tests.postgres import PostgresServer, connect, fresh_schema, in_schema
from tests.waiting import seen
from tests.worker.inside import store_of

ADDRESS = "127.83.70.11"
"""A loopback address of these tests' own: other servers on this machine use other ones."""
PASSWORD = "right"  # noqa: S105 - of a role that lives as long as these tests
UNKNOWN = "no-such-host.invalid"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Start a server that asks every role but its owner for a password."""
    with PostgresServer(listen=ADDRESS) as made:
        with connect(made.url) as owner:
            owner.execute(f"CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'")
            owner.execute("GRANT CREATE ON DATABASE postgres TO app")
            owner.execute(f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")
            owner.execute("CREATE DATABASE closed")
            owner.execute("REVOKE CONNECT ON DATABASE closed FROM public")
            (made._data / "pg_hba.conf").write_text(  # noqa: SLF001 - who is let in is what these tests are about
                "local all postgres trust\nlocal all all scram-sha-256\nhost all all all scram-sha-256\n"
            )
            owner.execute("SELECT pg_reload_conf()")
        yield made


@pytest.fixture
def running(server: PostgresServer) -> Iterator[PostgresServer]:
    """Give the server to tests that stop it or change the role; the next one finds it as it was."""
    yield server
    if server._process is None:  # noqa: SLF001 - the test stopped it
        server.start()
    with connect(server.url) as owner:
        owner.execute(f"ALTER ROLE app PASSWORD '{PASSWORD}' CONNECTION LIMIT -1")


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "TRY_EVERY", 0.05)


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STANDFAST_SPOOL", str(tmp_path / "spool"))
    return tmp_path / "spool"


@pytest.fixture
async def opened(spool: Path) -> AsyncIterator[Callable[[str], Standfast]]:
    """Make applications, and close them after the test."""
    made: list[Standfast] = []

    def make(url: str) -> Standfast:
        made.append(Standfast(url))
        return made[-1]

    assert spool
    yield make
    for each in made:
        await each.close()


def address(server: PostgresServer, user: str = "app", password: str = PASSWORD, database: str = "postgres") -> str:
    who = f"{user}:{password}" if password else user
    return in_schema(f"postgresql://{who}@/{database}?host={server.host}", fresh_schema())


WRONG: dict[str, Callable[[PostgresServer], str]] = {
    "password": lambda server: address(server, password="wrong"),  # noqa: S106 - that is the point
    "no password": lambda server: address(server, password=""),
    "role": lambda server: address(server, user="nobody"),
    "database": lambda server: address(server, database="nowhere"),
    "right to connect": lambda server: address(server, database="closed"),
    "right to make a schema": lambda server: address(server, user="guest"),
    "host": lambda _server: f"postgresql://app@{UNKNOWN}/postgres",
}


def stop_the_clock_at(seconds: float) -> Callable[[], None]:
    begun = time.monotonic()

    def check() -> None:
        assert time.monotonic() - begun < seconds, "it was waited for"

    return check


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_address_is_refused_at_once_and_nothing_is_spooled(server, opened, spool, wrong):
    sf = opened(WRONG[wrong](server))
    check = stop_the_clock_at(4.5)  # a call waits 5 s for a server that is away
    calls: list[int] = []
    verbs: list[Callable[[], Any]] = [
        lambda: sf.enqueue("mail", 1, otherwise=lambda: calls.append(1)),
        lambda: asyncio.to_thread(sf.enqueue_sync, "mail", 1),
        lambda: sf.enqueue_many("mail", [1, 2]),
        sf.open,
        sf.worker().__aenter__,
        sf.stats,
    ]
    for verb in verbs:
        with pytest.raises(ConfigurationError, match="nothing was written, and waiting does not help"):
            await verb()
    check()
    assert calls == []
    assert not spool.exists()
    judged = await sf.health()
    assert (judged["status"], judged["spool"]["path"], judged["spool"]["depth"]) == ("degraded", str(spool), 0)


@pytest.mark.parametrize("state", ["28P01", "28000", "3D000", "42501"])
def test_waiting_does_not_mend_who_asks_for_what(state):
    assert is_lasting(state)


@pytest.mark.parametrize("state", [None, "57P03", "57P01", "53300", "08006", "25006", "42P01"])
def test_waiting_may_mend_a_server_that_starts_stops_or_is_full(state):
    assert not is_lasting(state)


async def test_a_server_with_too_many_connections_is_an_outage(running, opened, monkeypatch):
    monkeypatch.setattr(store_module, "PATIENCE", 0.3)
    with connect(running.url) as owner:
        owner.execute("ALTER ROLE app CONNECTION LIMIT 0")
    sf = opened(address(running))
    assert (await sf.enqueue("mail", 1)).outcome == "spooled"
    with connect(running.url) as owner:
        owner.execute("ALTER ROLE app CONNECTION LIMIT -1")
    await seen(lambda: not sf._reception._spool.depth())  # noqa: SLF001


async def test_a_password_that_is_changed_under_an_open_store_is_refused_until_it_is_right_again(
    running, opened, spool
):
    sf = opened(address(running))
    assert (await sf.enqueue("mail", 1)).outcome == "accepted"
    with connect(running.url) as owner:
        owner.execute("ALTER ROLE app PASSWORD 'other'")
    running.terminate_backends()
    with pytest.raises(ConfigurationError, match="password authentication failed"):
        await sf.enqueue("mail", 2)
    with pytest.raises(ConfigurationError):
        await asyncio.to_thread(sf.enqueue_sync, "mail", 3)
    assert not spool.exists()
    with connect(running.url) as owner:
        owner.execute(f"ALTER ROLE app PASSWORD '{PASSWORD}'")
    assert (await sf.enqueue("mail", 4)).outcome == "accepted"


async def test_a_call_keeps_its_lease_through_a_password_that_is_changed_and_corrected(running, opened):
    """The heartbeat of a caller is refused at once, too, and nothing but itself would begin it again."""
    go, runs = asyncio.Event(), []
    url = address(running)
    sf = opened(url)
    sf.queue("mail", lease=9)

    @sf.handler("mail")
    async def mail(job):
        runs.append(job.token)
        await go.wait()

    calling = asyncio.create_task(sf.run("mail"))
    await seen(lambda: runs)
    with connect(url.replace(f"app:{PASSWORD}@", "postgres@")) as owner:
        owner.execute("ALTER ROLE app PASSWORD 'other'")
    running.terminate_backends()
    with connect(url.replace(f"app:{PASSWORD}@", "postgres@")) as owner:
        await seen(lambda: "password authentication failed" in (store_of(sf).trouble or ""))
        owner.execute(f"ALTER ROLE app PASSWORD '{PASSWORD}'")
        beats = "SELECT count(*) FROM worker WHERE beat_at > extract(epoch FROM %s::timestamptz)"
        [(corrected,)] = owner.execute("SELECT clock_timestamp()").fetchall()
        await seen(lambda: owner.execute(beats, (corrected,)).fetchone() == (1,))
    go.set()
    assert ((await calling)["status"], runs) == ("ok", [1])


async def test_a_right_that_is_taken_away_is_refused_at_once(running, opened, spool):
    url = address(running)
    sf = opened(url)
    await sf.enqueue("mail", 1)
    with connect(url.replace(f"app:{PASSWORD}@", "postgres@")) as owner:
        owner.execute("REVOKE INSERT ON body FROM app")
    with pytest.raises(ConfigurationError, match="permission denied for table body"):
        await sf.enqueue("mail", 2)
    assert not spool.exists()


async def test_what_is_in_the_spool_stays_there_and_is_shown_until_the_address_is_right(
    running, opened, spool, monkeypatch
):
    right = address(running)
    running.stop()
    producer = opened(right)
    with monkeypatch.context() as impatient:
        impatient.setattr(store_module, "PATIENCE", 0.3)
        receipt = await producer.enqueue("mail", 1)
    await producer.close()
    assert receipt.outcome == "spooled"
    running.start()
    mistaken = opened(right.replace(PASSWORD, "wrong"))
    with pytest.raises(ConfigurationError):
        await mistaken.enqueue("mail", 2)
    judged = await mistaken.health()
    [store, waiting] = judged["issues"]
    assert "password authentication failed" in store
    assert waiting.startswith(f"spool: 1 job waits on this host, in {spool}, the oldest for ")
    assert judged["spool"]["oldest_seconds"] > 0
    with pytest.raises(ConfigurationError) as raised:
        await mistaken.stats()
    assert raised.value.__notes__[0].startswith("spool: 1 job waits")
    await mistaken.close()
    mended = await opened(right).open()
    await seen(lambda: not mended._reception._spool.depth())  # noqa: SLF001
    assert (await mended.status(receipt.id)).state == "queued"


# --- names of hosts


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Give the names of hosts that are found, all at the server's address; nobody can switch off a real name server."""
    found: set[str] = set()
    real = socket.getaddrinfo

    def find(host: Any, *arguments: Any, **options: Any) -> Any:
        if host in found:
            return real(ADDRESS, *arguments, **options)
        if str(host).endswith(".invalid"):
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", find)
    return found


async def test_a_name_that_is_not_found_any_more_is_an_outage_on_a_host_that_reached_the_store(
    running, opened, names, monkeypatch
):
    assert running
    url = in_schema(f"postgresql://app:{PASSWORD}@database.invalid/postgres", fresh_schema())
    mistaken = opened(url)
    with pytest.raises(ConfigurationError, match="this host has never reached it"):
        await mistaken.enqueue("mail", 0)
    await mistaken.close()  # it looks again by itself, and applications of one process share a connection
    names.add("database.invalid")
    first = opened(url)
    assert (await first.enqueue("mail", 1)).outcome == "accepted"
    await first.close()
    names.clear()
    monkeypatch.setattr(store_module, "PATIENCE", 0.3)
    assert (await opened(url).enqueue("mail", 2)).outcome == "spooled"
    wrong = url.replace(PASSWORD, "wrong")
    names.add("database.invalid")
    with pytest.raises(ConfigurationError, match="password authentication failed"):
        await opened(wrong).enqueue("mail", 3)


# --- without a spool


async def test_without_a_spool_the_caller_is_told_and_its_fallback_called(
    running, tmp_path, monkeypatch, opened, spool
):
    monkeypatch.delenv("STANDFAST_SPOOL")
    monkeypatch.setattr(store_module, "PATIENCE", 0.3)
    (tmp_path / "standfast.toml").write_text("[store]\nspool = false\n")
    sf = opened(address(running))
    assert (await sf.stats())["spool"] is None
    assert (await sf.health())["spool"] is None
    running.stop()
    calls: list[int] = []
    assert await sf.enqueue("mail", 1, otherwise=lambda: calls.append(1)) == Receipt(None, "fallback", None)
    with pytest.raises(StoreUnavailable) as raised:
        await sf.enqueue("mail", 2)
    assert (raised.value.definite, calls) == (True, [1])
    with pytest.raises(StoreUnavailable):
        await opened(address(running)).open()
    assert not spool.exists()


# --- told outside


async def test_a_client_is_told_that_the_server_is_at_fault_and_not_where_its_store_is(running, opened):
    sf = opened(address(running, password="wrong"))  # noqa: S106
    with pytest.raises(ConfigurationError) as raised:
        await sf.enqueue("mail")
    problem = of_error(raised.value)
    assert (problem.status, problem.kind) == (503, "store-misconfigured")
    assert running.host not in problem.detail


async def test_a_connection_that_succeeds_is_not_tried_twice(server, opened, monkeypatch):
    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("standfast.store.postgres.refusal._traced_state", never)
    assert (await opened(address(server)).enqueue("mail", 1)).outcome == "accepted"
