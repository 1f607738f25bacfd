"""Open alerts where people and programs look: REST, the first page, the command line; each by what a token reaches."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

from standfast.testing.kit import InMemory, memory
from standfast.wings.health import commands as store_commands
from standfast.wings.health.health_words import alert_line
from tests.doors.test_rest import HERE, Clients
from tests.worker.wrongs import looked

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
async def sf() -> AsyncIterator[InMemory]:
    async with memory() as made:
        for queue in ("mail", EVIL):
            made.queue(queue, depth_warning=0)
        await looked(made)
        for queue in ("mail", EVIL):
            await made.enqueue(queue, {})
        await looked(made)
        yield made


async def test_health_lists_the_open_ones_that_a_token_reaches(sf: InMemory) -> None:
    clients = Clients(sf)
    whole, part = await clients.of("viewer"), await clients.of("viewer", queues=["mail"])
    found = (await whole.get("/health")).json()["alerts"]
    assert {(each["kind"], each["queue"]) for each in found} == {("depth", "mail"), ("depth", EVIL)}
    [alert] = (await part.get("/health")).json()["alerts"]
    assert set(alert) == {
        *("kind", "queue", "subject", "since", "message", "value", "threshold", "severity", "clearing", "advice"),
    }
    assert (alert["queue"], alert["message"], alert["value"], alert["clearing"]) == (
        *("mail", "mail: 1 pending (backed up)", 1.0, False),
    )
    assert alert["since"].startswith("2026-01-01T00:00:20")
    await clients.close()


async def test_the_first_page_shows_them_with_since_when_and_what_to_do(sf: InMemory) -> None:
    clients = Clients(sf)
    whole, part = await clients.of("viewer"), await clients.of("viewer", queues=["mail"])
    page = (await whole.get(f"{HERE}/")).text
    assert 'aria-label="Issues and alerts"' in page
    assert 'datetime="2026-01-01T00:00:20' in page
    assert EVIL not in page
    assert page.count("1 pending (backed up)") == page.count("alert started") == 2
    assert (await part.get(f"{HERE}/")).text.count("alert started") == 1
    queue = (await part.get(f"{HERE}/queues/mail")).text
    assert queue.count("alert started") == 1
    assert queue.index("no handler is known") < queue.index("1 pending (backed up)"), "what hurts most comes first"
    assert "What its handlers call is probably down or slow" not in queue, "it has no handler at all"
    await clients.close()


async def test_the_command_line_names_them(sf: InMemory, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    judged = await sf.health()
    monkeypatch.setattr(store_commands, "look", lambda _url, _ask: judged)
    with pytest.raises(SystemExit):
        store_commands.health(["--url", ":memory:"])
    assert re.search(r"^alert depth started .* ago: ", capsys.readouterr().out, re.MULTILINE)


async def test_an_alert_whose_number_is_no_longer_so_says_that_it_was(sf: InMemory) -> None:
    [job] = [each for each in await sf.jobs() if each.queue == "mail"]
    await sf.cancel(job.id, by="ann")
    [alert] = [each for each in (await sf.health())["alerts"] if each["queue"] == "mail"]
    assert alert["clearing"], "no worker has looked since"
    now = datetime.fromisoformat(alert["since"]) + timedelta(minutes=3)
    said = "alert depth is clearing; it started 3 min ago, and was: mail: 1 pending (backed up)"
    assert alert_line(alert, now) == said
    [other] = [each for each in (await sf.health())["alerts"] if each["queue"] == EVIL]
    assert alert_line(other, now) == f"alert depth started 3 min ago: {EVIL}: 1 pending (backed up)"
