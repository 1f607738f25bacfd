"""What every test shares."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.postgres import NAMED, Lender, PostgresServer, borrow, drop_schema, fresh_schema, in_schema
from tests.schemas import Schemas

LENDER = pytest.StashKey[Lender]()


def pytest_configure(config: pytest.Config) -> None:
    """Only the process that starts the workers, or has none, owns the server: it is the last to go."""
    if config.getoption("--soak", default=False):  # an option of the fault tests
        settings.load_profile("soak")
    if not hasattr(config, "workerinput"):
        config.stash[LENDER] = Lender()


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


# A busy machine is no failure.
settings.register_profile("quick", deadline=None, max_examples=40)
settings.register_profile("soak", deadline=None, max_examples=400)
settings.load_profile("quick")


WORKER_ON_POSTGRES = {
    "tests/doors/test_rest_notices.py": ("no_longer_kept", "does_not_read"),
    "tests/worker/test_calls.py": ("fifty", "two_callers"),
    "tests/worker/test_alerts.py": ("followers",),
    "tests/worker/test_approvers.py": ("however_old", "every_rule", "next_death"),
    "tests/worker/test_claiming.py": ("wakes", "slow", "busy"),
    "tests/worker/test_conditions.py": ("low_disk]", "is_open"),
    "tests/worker/test_consent.py": ("once_is_for", "one_of_many", "two_at_once", "blanket"),
    "tests/worker/test_effects.py": ("verify", "once"),
    "tests/worker/test_inbox.py": ("acknowledged", "refuses", "people_who", "too_many", "listed"),
    "tests/worker/test_killed_effects.py": ("",),
    "tests/worker/test_limits.py": ("",),
    "tests/worker/test_overtaken.py": ("written", "cancel", "taken_over", "every_turn", "purged", "side_by_side"),
    "tests/worker/test_processes.py": ("killed", "share_the_work", "wakes"),
    "tests/worker/test_promote.py": ("",),
    "tests/worker/test_redrive_at_work.py": ("in_numbers",),
    "tests/worker/test_required.py": ("another_cannot", "retry_that_is_asked_for"),
    "tests/worker/test_redrives.py": ("concurrent", "canary", "poisoned", "32_who"),
    "tests/worker/test_schedules.py": ("wakes", "set_back"),
    "tests/worker/test_subscribers.py": ("however_many", "not_at_all"),
    "tests/worker/test_traces.py": ("across_two_processes",),
    "tests/worker/test_transactions.py": ("",),
}
"""Of the worker's tests, those about which the server has a say; the others see it only through the store's verbs."""
LONG_ON_POSTGRES = ("tests/scenarios/", "tests/doors/", "tests/worker/")
"""Rooms whose tests run on a file in every run, and on PostgreSQL in script/soak: a run may take five minutes."""
IN_MEMORY_TOO = ("tests/store/test_accepting.py", "tests/store/test_claiming.py")
"""Of the store's tests, those that run in memory in every run; the worker's tests do, and the others run on a file."""
LONG_IN_PART = {
    "tests/worker/test_promote.py": ("under_load", "killed_at", "everything_arrives", "every_verb", "not_empty"),
    "tests/doors/test_bench_postgres.py": ("bar", "row", "named"),
}
"""Files of which only the tests with one of these words in their names run every time."""
LONG = {
    "tests/core/test_workflow.py": ("no_faster[backwards", "no_faster[circle"),
    "tests/doors/test_bench.py": ("",),
    "tests/doors/test_demo.py": ("a_terminal_gets_bars",),
    "tests/faults/test_frozen_worker.py": ("while_the_loop_is_blocked", "blocks_the_loop", "ended-plain", "runs-async"),
    "tests/faults/test_io_errors.py": ("failed-for-good", "full-once", "busy-for-good", "corrupt-for-good"),
    "tests/faults/test_postgres_outages.py": (
        "found_again[left",
        "standby",
        "without_room",
        "does_not_sync",
        "crashes_and_cut",
    ),
    "tests/faults/test_spool_crashes.py": ("before it is brought", "before the commit]", "after it is forgotten"),
    "tests/faults/test_spool_outage.py": ("shows_in_stats", "the_next_process", "only_the_first_call"),
    "tests/scenarios/test_examples.py": ("http_outage",),
    "tests/store/test_audit.py": (
        *("link[postgres-time", "link[postgres-re", "link[postgres-cut, ", "link[postgres-every"),
        *("link[postgres-text", "link[postgres-head set", "link[postgres-another"),
    ),
    "tests/store/test_postgres_strain.py": ("dead_rows",),
    "tests/worker/test_transactions.py": ("scoped session", "sqlalchemy async", "asyncpg pool", "sqlalchemy session"),
    "tests/worker/test_leases.py": ("after_an_outage_longer_than_a_lease",),
}
"""Tests with one of these words in their names run in script/soak alone: slow ones, whose siblings run every time."""


def pytest_itemcollected(item: pytest.Item) -> None:
    file = item.nodeid.partition("::")[0]
    on_postgres = "postgres" in item.name and file.startswith(LONG_ON_POSTGRES)
    on_postgres = on_postgres and not any(word in item.name for word in WORKER_ON_POSTGRES.get(file, ()))
    in_memory = file.startswith("tests/store/") and file not in IN_MEMORY_TOO and "[memory" in item.name
    words = LONG_IN_PART.get(file, ("",))
    by_name = any(word in item.name for word in LONG.get(file, ()))
    if on_postgres or in_memory or by_name or not any(word in item.name for word in words):
        item.add_marker(pytest.mark.long)


def pytest_collection() -> None:
    """Collect tests without collecting garbage: nothing of it is any."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Have the thousands of tests be walked through no more: that took a fifth of a run's processor time."""
    gc.freeze()
    gc.enable()
