"""`GET /metrics` as Prometheus reads it, who gets it, and that rules and page name what is really there."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from standfast import Permanent, Standfast
from standfast.server.app import Server
from standfast.testing import FrozenClock, drain
from standfast.testing.kit import InMemory, memory
from standfast.wings.alerts.words import AlertKind
from standfast.wings.health import timings as timings_script
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.doors.test_rest import HERE, Clients, hint
from tests.worker.inside import store_of
from tests.worker.wrongs import looked

_numbers = itertools.count()
DOCS = Path(__file__).parents[2] / "docs"
NASTY = 'a"b\\c{d="e"}\u2028\U0001f4a5, é'
Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


@pytest.fixture(params=["memory", "postgres"])
async def sf(request: pytest.FixtureRequest) -> AsyncIterator[InMemory]:
    url = ":memory:" if request.param == "memory" else request.getfixturevalue("used_postgres_url")
    made = InMemory(url, clock=FrozenClock())
    made.handler("echo")(lambda job: job.payload)

    @made.handler("refused")
    async def refused(_job):
        raise Permanent("no")

    async with made:
        yield made


def read(answer: httpx2.Response) -> Samples:
    """Read samples, name by name, each with its labels."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found: Samples = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


async def scraped(sf: Standfast, **scope: Any) -> Samples:
    """Read what a viewer gets."""
    token = await sf.tokens.create(f"viewer-{next(_numbers)}", person="me", role="viewer", **scope)
    return read(await _asked(sf, ("192.0.2.1", 1), Authorization=f"Bearer {token['token']}"))


def labels(**given: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(given.items()))


async def test_what_happened_is_measured(sf):
    await sf.enqueue_many("echo", [1, 2, 3])
    await sf.enqueue("refused", {})
    await drain(sf)
    await sf.enqueue("echo", 4)
    found = await scraped(sf)
    assert found["standfast_jobs"][labels(queue="echo", state="due")] == 1
    assert found["standfast_jobs"][labels(queue="refused", state="dead")] == 1
    assert found["standfast_jobs_completed_total"][labels(queue="echo")] == 3
    assert found["standfast_jobs_failed_total"][labels(queue="refused")] == 1
    assert found["standfast_new_dead_letters"][labels(queue="refused")] == 1
    for what in ("queue_wait", "attempt_duration"):
        assert found[f"standfast_{what}_seconds_count"][labels(queue="echo")] == 3
        buckets = found[f"standfast_{what}_seconds_bucket"]
        assert buckets[labels(queue="echo", le="+Inf")] == 3
        assert 0 <= buckets[labels(queue="echo", le="0.005")] <= buckets[labels(queue="echo", le="10.0")] == 3
        assert 0 <= found[f"standfast_{what}_seconds_sum"][labels(queue="echo")] < 30
    assert found["standfast_alert_threshold"][labels(queue="echo", alert="depth")] == 100
    assert found["standfast_store_up"][()] == 1
    assert found["standfast_workers"][()] == 0


async def test_what_workers_timed_outlives_them(sf):
    """It is added up once they are gone, and counted once."""
    for number in range(1, 4):
        await sf.enqueue("echo", number)
        await drain(sf)  # a worker of its own
        await store_of(sf).write(upkeep.prune, PruneRequest())
        found = await scraped(sf)
        assert found["standfast_queue_wait_seconds_count"][labels(queue="echo")] == number
    timings = await store_of(sf).read(timings_script.read())
    assert sum(timings["echo"].runs) == 3


async def test_a_name_may_be_nasty(sf):
    await sf.enqueue(NASTY.replace("\u2028", ""), {})
    found = await scraped(sf)
    assert found["standfast_jobs"][labels(queue=NASTY.replace("\u2028", ""), state="due")] == 1


async def test_a_token_for_some_queues_shows_these_alone(sf):
    await sf.enqueue("echo", 1)
    await sf.enqueue("refused", {})
    await looked(sf)
    sf.clock.advance(40)
    await looked(sf, 2)
    whole, part = await scraped(sf), await scraped(sf, queues=["echo"])
    assert {dict(each)["queue"] for each in part["standfast_jobs"]} == {"echo"}
    assert {"standfast_workers", "standfast_store_up", "standfast_audit_head"} & set(part) == set()
    alerts = "standfast_alert_started_timestamp_seconds"
    assert {dict(each)["queue"] for each in part[alerts]} == {"echo"}
    assert {dict(each)["queue"] for each in whole[alerts]} >= {"echo", "refused"}
    assert "refused" not in str(part)


async def _asked(sf: Standfast, client: tuple[str, int], **headers: str) -> httpx2.Response:
    transport = httpx2.ASGITransport(app=Server(sf).app, client=client)
    async with httpx2.AsyncClient(transport=transport, base_url=HERE) as asking:
        return await asking.get("/metrics", headers=headers)


async def test_without_a_token_it_is_closed_unless_the_operator_opens_it_to_the_host_itself(monkeypatch, tmp_path):
    async with memory() as sf:
        assert "token" in hint(await _asked(sf, ("127.0.0.1", 1)), 401)
    file = tmp_path / "standfast.toml"
    file.write_text('[server]\nmetrics = "loopback"\n')
    monkeypatch.setenv("STANDFAST_CONFIG", str(file))
    async with memory() as sf:
        assert read(await _asked(sf, ("127.0.0.1", 1)))["standfast_store_up"] == {(): 1}
        assert read(await _asked(sf, ("::1", 1)))
        for client, headers in (
            (("192.0.2.1", 1), {}),
            (("127.0.0.1", 1), {"X-Forwarded-For": "192.0.2.1"}),
            (("127.0.0.1", 1), {"Forwarded": "for=192.0.2.1"}),
            (("127.0.0.1", 1), {"Authorization": "Bearer sf_wrong"}),
            (("testclient", 1), {}),
        ):
            hint(await _asked(sf, client, **headers), 401)


async def test_a_producer_may_not_read_them(sf):
    clients = Clients(sf)
    client = await clients.of("producer")
    hint(await client.get(f"{HERE}/metrics"), 403)
    await clients.close()


async def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "standfast.wings.health.exposition", raising=False)
    async with memory() as sf:
        clients = Clients(sf)
        client = await clients.of("viewer")
        assert "standfast[server]" in hint(await client.get(f"{HERE}/metrics"), 501)
        await clients.close()


async def test_while_the_store_is_away_what_waits_on_this_host_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("STANDFAST_SPOOL", str(tmp_path / "spool"))
    file = tmp_path / "standfast.toml"
    file.write_text('[server]\nmetrics = "loopback"\n')
    monkeypatch.setenv("STANDFAST_CONFIG", str(file))
    monkeypatch.setattr("standfast.store.store.PATIENCE", 0.1)
    async with Standfast("postgresql://nobody@127.0.0.1:9/none") as sf:
        receipt = await sf.enqueue("mail", {})
        assert receipt.outcome == "spooled"
        found = read(await _asked(sf, ("127.0.0.1", 1)))
        assert (found["standfast_store_up"], found["standfast_spool_jobs"]) == ({(): 0}, {(): 1})


# --- rules and page


def rules() -> list[dict[str, Any]]:
    groups = YAML(typ="safe").load(DOCS / "prometheus-rules.yaml")["groups"]
    return [rule for group in groups for rule in group["rules"]]


def families(text: str) -> dict[str, str]:
    """Give every name that a query can use, with its kind, also of families that have no samples just now."""
    declared = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    parts = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("",), "gauge": ("",)}
    return {f"{name}{part}": kind for name, kind in declared.items() for part in parts[kind]}


async def test_rules_and_page_name_every_metric_that_is_there_and_no_other():
    async with memory() as sf:
        await sf.enqueue("mail", {})
        clients = Clients(sf)
        client = await clients.of("viewer")
        text = (await client.get(f"{HERE}/metrics")).text
        await clients.close()
    known = families(text)
    assert all(name.startswith("standfast_") for name in known)
    assert all(name.endswith("_total") for name, kind in known.items() if kind == "counter")
    used = {name for rule in rules() for name in re.findall(r"\bstandfast_\w+", rule["expr"])}
    assert used - set(known) == set()
    named = set(re.findall(r"\bstandfast_\w+", (DOCS / "alerts.md").read_text()))
    whole = {re.sub(r"_(bucket|count|sum)$", "", name) if kind == "histogram" else name for name, kind in known.items()}
    assert named == whole
    queries = {name: re.findall(rf"{name}{{([^}}]*)}}", rule["expr"]) for rule in rules() for name in used}
    assert {word for found in queries.values() for each in found for word in re.findall(r"(\w+)=", each)} <= {
        *("state", "alert", "queue"),
    }


def test_every_alert_has_a_rule_and_a_line_on_the_page():
    kinds = {str(kind) for kind in AlertKind}
    assert {rule["labels"]["kind"] for rule in rules() if "kind" in rule["labels"]} == kinds
    assert set(re.findall(r"^\| `(\w+)` \|", (DOCS / "alerts.md").read_text(), re.MULTILINE)) == kinds
    thresholds = {each for rule in rules() for each in re.findall(r'alert="(\w+)"', rule["expr"])}
    assert thresholds <= kinds


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_is_whole(rule):
    expression = rule["expr"]
    assert [expression.count(pair) for pair in "({["] == [expression.count(pair) for pair in ")}]"]
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"]["summary"]
