"""Several hosts, one server, and the bad days of all of them: whatever happens, the books balance."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from tests.faults.company import RECOVERY, company
from tests.faults.hosts import some_hosts
from tests.faults.nursery import until


def lasting(seconds: float) -> Callable[[], bool]:
    """Make a fact of so much time having passed."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def test_a_host_that_is_cut_off_loses_its_job_to_another_and_comes_back(tmp_path, record_property):
    with some_hosts(2) as hosts, company(hosts, tmp_path, lease=1.0, pause=0.1) as both:
        record_property("hosts", hosts.how)
        both.open(1)
        both.hand_in("slow", do="slow,answer", seconds=1)
        until(lambda: both.tokens("slow") == [1])
        hosts.cut(0)
        both.hire(1)
        until(lambda: both.tokens("slow") == [1, 2], within=RECOVERY)
        hosts.mend(0)
        both.works()
        both.leaves()
        assert both.balance()["recorded"]


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("plain", [False, True], ids=["the best there are", "proxied"])
def test_bad_days_of_hosts_network_and_server(tmp_path, record_property, plain):
    lease = 2.0
    with some_hosts(3, plain=plain) as hosts, company(hosts, tmp_path, lease=lease, pause=0.02) as all_of_them:
        record_property("hosts", hosts.how)
        print(f"hosts are {hosts.how}")  # noqa: T201 - the reader of a run should know
        all_of_them.open(3)
        hosts.cut(0)
        until(lasting(4 * lease))
        all_of_them.works(but=0)
        until(lambda: any(line["outcome"] == "spooled" for line in all_of_them.accepted()), within=RECOVERY)
        hosts.mend(0)
        all_of_them.works()
        hosts.server.terminate_backends()
        all_of_them.works()
        hosts.server.stop("immediate")
        until(lasting(0.5))
        with hosts.beside_the_server():
            hosts.server.start()
        all_of_them.works()
        all_of_them.workers[1][1].kill()
        _, frozen = all_of_them.workers[2]
        frozen.send(signal.SIGSTOP)
        until(lasting(2 * lease))
        all_of_them.hire(1)
        frozen.send(signal.SIGCONT)
        all_of_them.works()
        all_of_them.leaves()
        found = all_of_them.balance()
        assert found["recorded"], "no attempt was lost: the faults were none"
