"""What every test shares."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest
from hypothesis import settings

from tests.lock_order import LockOrder
from tests.postgres import NAMED, Lender, PostgresServer, borrow, drop_schema, fresh_schema, in_schema
from tests.schemas import Schemas

LENDER = pytest.StashKey[Lender]()


def pytest_configure(config: pytest.Config) -> None:
    """Only the process that starts the workers, or has none, owns the server: it is the last to go."""
    _heed_interrupts()
    if config.getoption("--soak", default=False):  # an option of the fault tests
        settings.load_profile("soak")
    if not hasattr(config, "workerinput"):
        config.stash[LENDER] = Lender()


def _heed_interrupts() -> None:
    """Take SIGINT as usual where a shell in the background has it ignored: the processes under test inherit that."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker whom to ask."""
    node.workerinput["lender"] = node.config.stash[LENDER].address


def pytest_unconfigure(config: pytest.Config) -> None:
    if LENDER in config.stash:
        config.stash[LENDER].close()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def shared_server(pytestconfig: pytest.Config) -> str:
    """Give the URL of the server that all tests share; the first that asks waits for its start."""
    if os.environ.get(NAMED):
        return os.environ[NAMED]
    told = getattr(pytestconfig, "workerinput", None)
    return borrow(*(told["lender"] if told else pytestconfig.stash[LENDER].address))


@pytest.fixture
def postgres_url(shared_server: str) -> Iterator[str]:
    """Give a place of the test's own: the product makes the schema that the URL names."""
    url = in_schema(shared_server, fresh_schema())
    yield url
    drop_schema(url)


@pytest.fixture(scope="session")
def _schemas(shared_server: str) -> Iterator[Schemas]:
    schemas = Schemas(shared_server)
    yield schemas
    schemas.close()


@pytest.fixture
def used_postgres_url(_schemas: Schemas) -> Iterator[str]:
    """Give an empty store that may have been used before, to tests that do not judge how it is made."""
    with _schemas.lent() as url:
        yield url


@pytest.fixture(scope="session")
def _own_server() -> Iterator[PostgresServer]:
    if os.environ.get(NAMED):
        pytest.skip(f"stops the server, and {NAMED} names one that is not the test's")
    with PostgresServer() as server:
        yield server


@pytest.fixture
def own_server(_own_server: PostgresServer) -> Iterator[PostgresServer]:
    """Give a server to stop and start: no other test uses it, and the next one finds it running, without clients."""
    yield _own_server
    _own_server.stop("immediate")
    _own_server.start()


@pytest.fixture
def own_url(own_server: PostgresServer) -> str:
    """Give a place of the test's own on the server it may stop."""
    return in_schema(own_server.url, fresh_schema())


@pytest.fixture(scope="session", autouse=True)
def _spools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what tests spool out of the home of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.delenv("STANDFAST_SPOOL", raising=False)
        yield


@pytest.fixture(scope="session")
def lock_order() -> Iterator[LockOrder]:
    """Look at the locks of every transaction."""
    looked_at = LockOrder()
    with pytest.MonkeyPatch.context() as patch:
        looked_at.install(patch)
        yield looked_at


@pytest.fixture(autouse=True)
def _in_order(lock_order: LockOrder) -> Iterator[None]:
    """Have each test fail in which a transaction locks in another order than all others."""
    yield
    fallen = sorted(set(lock_order.falls))
    lock_order.falls.clear()
    assert fallen == [], "say in tests/lock_order.py why no transaction waits for one that waits for it"


# A busy machine is no failure.
settings.register_profile("quick", deadline=None, max_examples=30)
settings.register_profile("soak", deadline=None, max_examples=400)
settings.load_profile("quick")


SERVER_FIXTURES = frozenset({"shared_server", "postgres_url", "used_postgres_url", "own_server", "own_url"})
"""The fixtures that give a test a PostgreSQL."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what needs a PostgreSQL, by what it asks for rather than by its name, so that no test can be forgotten."""
    if not _needs_postgres(item):
        return
    item.add_marker(pytest.mark.postgres)
    if item.get_closest_marker("long_on_postgres"):
        item.add_marker(pytest.mark.long)


SAMPLED = bool(os.environ.get("STANDFAST_SAMPLE"))
"""Whether this run keeps to a sample of what PostgreSQL repeats, as script/test says."""
PARTS = {"tests/store/": 3, "tests/faults/": 1, "tests/stores/": 1}
"""Into how many parts a folder's tests on PostgreSQL are divided. One part runs; of all other folders, one of five."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to script/soak what PostgreSQL repeats: further values of a test, pages in a browser, a part of the rest.

    Which part it is, the commit says, so that all of it runs every few commits. Everything runs on SQLite in every run,
    and so does whatever has no engine to choose.
    """
    seen: set[str] = set()
    commit = _hash_of_this_commit() if SAMPLED else 0
    for item in items if SAMPLED else ():
        if isinstance(item, pytest.Function) and _chooses_postgres(item):
            test = item.nodeid.partition("[")[0]
            parts = next((number for folder, number in PARTS.items() if test.startswith(folder)), 5)
            is_in_part = (crc32(test.encode()) + commit) % parts == 0
            if test in seen or not is_in_part or item.get_closest_marker("browser"):
                item.add_marker(pytest.mark.long)
            seen.add(test)
    items.sort(key=_is_quick)


def _hash_of_this_commit() -> int:
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, check=False).stdout.strip()  # noqa: S607
    return crc32(found)


LONGEST = ("tests/website", "tests/stores", "tests/faults", "tests/doors")
"""Folders with tests that take longest. They begin first, so that no process works on alone at the end."""


def _is_quick(item: pytest.Item) -> bool:
    return not item.nodeid.startswith(LONGEST)


def _needs_postgres(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    return _chooses_postgres(item) or not SERVER_FIXTURES.isdisjoint(item.fixturenames)


def _chooses_postgres(item: pytest.Function) -> bool:
    """Tell whether this is the PostgreSQL one of a test that runs on both engines."""
    chosen = item.callspec.params.values() if hasattr(item, "callspec") else ()
    # Some parameters are objects that raise when they are compared.
    return any(type(each) is str and each == "postgres" for each in chosen)


def pytest_collection() -> None:
    """Collect tests without collecting garbage: nothing of it is any."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Have the thousands of tests be walked through no more: that took a fifth of a run's processor time."""
    gc.freeze()
    gc.enable()
