"""Limits and rates over three worker processes, judged by files that the product does not write."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from standfast import Standfast
from tests.waiting import job_of, seen, stamp
from tests.worker.processes import Log, children

TENANTS = 50
EACH = 2
RULES: dict[str, Any] = {"mail": {"concurrency": {"key": "payload.tenant", "limit": EACH}, "coalesce": "never"}}


def most_at_once(log: Log) -> Counter[str]:
    """Give how many of each tenant ran at once at most, by the order of the lines."""
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for line in log.path.read_text().splitlines():
        what, name, *_ = line.split()
        tenant = name.partition("-")[0]
        running[tenant] += 1 if what == "start" else -1
        most[tenant] = max(most[tenant], running[tenant])
    return most


async def run_tenants(disk: Standfast, url: str, log: Log, jobs: int, within: float) -> None:
    """Run the jobs of all tenants, one tenant's after the other's, in three processes."""
    names = [f"t{number * TENANTS // jobs}-{number}" for number in range(jobs)]
    payloads = [{"name": name, "tenant": name.partition("-")[0], "do": 0.001} for name in names]
    disk.queue("mail", **RULES["mail"])
    await disk.enqueue_many("mail", payloads)
    with children(url, log, 3, rules=RULES, concurrency=40):
        await seen(lambda: len(log.lines("end")) == jobs, within=within)
    assert sorted(line.name for line in log.lines("end")) == sorted(names)
    assert all(line.attempt == 1 for line in log.lines()), "waiting for a place spends no attempt"
    assert max(most_at_once(log).values()) <= EACH
    first_half = {line.name.partition("-")[0] for line in log.lines()[: jobs // 2]}
    assert len(first_half) == TENANTS, "no tenant waits for all the jobs of another"


async def test_no_tenant_exceeds_its_limit_and_none_starves(disk, url, log):
    await run_tenants(disk, url, log, 600, within=40)


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_ten_thousand_jobs_of_fifty_tenants(disk, url, log):
    await run_tenants(disk, url, log, 10_000, within=250)


async def test_a_rate_is_kept_over_three_processes(disk, url, log):
    rules: dict[str, Any] = {"mail": {"rate": "20/s"}}
    with children(url, log, 3, rules=rules, concurrency=8):
        disk.queue("mail", rate="20/s")
        receipts = await disk.enqueue_many("mail", [{"name": f"job-{number}"} for number in range(30)])
        await seen(lambda: len(log.lines("end")) == 30)
    starts = [stamp((await job_of(disk, receipt.id)).claimed_at) for receipt in receipts]
    assert max(sum(first <= start < first + 1 - 1e-4 for start in starts) for first in starts) <= 20
    told = [float(line.split()[4]) for line in log.path.read_text().splitlines() if line.startswith("start")]
    assert max(told) - min(told) >= (30 - 20) / 20 * 0.9, "and so it was for who ran them"
