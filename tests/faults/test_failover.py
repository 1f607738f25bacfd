"""A primary that is lost, and a standby that takes its place: clients follow by themselves, and nothing is gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from standfast.application.wings import store_at
from standfast.errors import StoreUnavailable
from tests.faults.company import company
from tests.faults.hosts import Pair
from tests.faults.nursery import until
from tests.postgres import in_schema

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]


@pytest.fixture(params=[False, True], ids=["crashes", "falls silent"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Give a primary, and a standby that has all that the primary acknowledges."""
    with Pair(2, silent=request.param) as made:
        yield made


def test_clients_follow_a_failover_and_nothing_acknowledged_is_lost(pair, tmp_path):
    with company(pair, tmp_path, lease=6.0, pause=0.02) as clients:
        clients.open(2)
        until(lambda: len(clients.accepted()) > 50)
        pair.fail_over()
        clients.works()
        clients.leaves()
        clients.balance()


def test_a_standby_is_refused_until_it_is_promoted(pair, monkeypatch):
    monkeypatch.setattr("standfast.store.store.PATIENCE", 1.0)
    follower = in_schema(pair.standby.url, "queue")
    with pytest.raises(StoreUnavailable, match="the server is a standby and takes no writes; connect to the primary"):
        store_at(follower).open()
    store = store_at(in_schema(pair.url(0), "queue"))
    store.open()
    store.close()
    pair.lose_the_primary()
    with pytest.raises(StoreUnavailable, match="nothing was written"):
        store_at(in_schema(pair.url(0), "queue")).open()
    pair.standby.promote()
    store = store_at(follower)
    store.open()
    store.close()
