"""The pages of a job and of an approval look at the audit chain only where that can hold something about the job."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from standfast import Standfast
from standfast.store.store import Store
from standfast.testing import drain
from standfast.wings.approvals import pages as approval_pages
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.words import Decision
from standfast.wings.jobs import pages as job_pages
from tests.doors.test_dashboard import Browsers
from tests.store.behind import change
from tests.worker.governing import Rulebook, govern

Page = Callable[[str], Awaitable[str]]
EARLIER = "Earlier decisions about it"


def store_of(sf: Standfast) -> Store:
    return sf._store  # noqa: SLF001 - no verb damages a chain


@pytest.fixture
async def page(furnished: Standfast) -> AsyncIterator[Page]:
    """Give the text of a page as an admin sees it."""
    browsers = Browsers(furnished)
    client = await browsers.of("admin")

    async def shown(address: str) -> str:
        answer = await client.get(address)
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    yield shown
    await browsers.close()


async def decide(sf: Standfast, times: int) -> None:
    """Add links about something else to the chain."""
    for number in range(times):
        await store_of(sf).write(audit.note, Decision(kind="policy", by=f"person{number}"))


async def test_the_page_of_a_job_that_only_ran_looks_at_no_link(furnished: Standfast, page: Page) -> None:
    await decide(furnished, 1)
    job = await furnished.enqueue("echo")
    await drain(furnished)
    broken = json.dumps(job.id)
    change(store_of(furnished), f"UPDATE audit SET entries = '{broken}' WHERE seq = 2")  # noqa: S608 - a look would tell
    assert "Decisions on record" not in await page(f"/jobs/{job.id}")


async def test_the_page_of_a_letter_goes_back_only_so_far(
    furnished: Standfast, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await furnished.enqueue("refused")
    await drain(furnished)
    await furnished.dead_letters.replay(job.id or "", by="olga", reason="it is back")
    await drain(furnished)
    shown = await page(f"/jobs/{job.id}")
    assert ("it is back" in shown, EARLIER in shown) == (True, False)
    await decide(furnished, 5)
    monkeypatch.setattr(job_pages, "LINKS_LOOKED_THROUGH", 3)
    shown = await page(f"/jobs/{job.id}")
    assert ("Decisions on record" in shown, EARLIER in shown) == (False, True)
    assert "it is back" in await page(f"/audit?job={job.id}"), "where the page leads to"
    younger = await furnished.enqueue("refused")
    await drain(furnished)
    await decide(furnished, 4)
    shown = await page(f"/jobs/{younger.id}")
    assert EARLIER in shown
    monkeypatch.setattr(job_pages, "LINKS_LOOKED_THROUGH", 8)
    assert EARLIER not in await page(f"/jobs/{younger.id}"), "nothing was decided about it before it came"


async def test_the_page_of_an_approval_looks_for_as_many_amendments_as_there_are(
    furnished: Standfast, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Rulebook()
    govern(furnished, book)
    book.queues = {"refused": "require_approval"}
    first, second = [await furnished.enqueue("refused", {"n": 1}) for _ in range(2)]
    await drain(furnished)
    await furnished.dead_letters.amend(first.id or "", {"n": 2}, by="olga", reason="a typo")
    asked = [await furnished.dead_letters.replay(each.id or "", by="olga", reason="r") for each in (first, second)]
    addresses = [f"/approvals/{each['approval']}" for each in asked]
    assert "a typo" in await page(addresses[0])
    await decide(furnished, 5)
    monkeypatch.setattr(approval_pages, "LINKS_LOOKED_THROUGH", 3)
    amended, untouched = [await page(each) for each in addresses]
    assert ("a typo" in amended, "It was amended earlier, too" in amended) == (False, True)
    assert ("Changed since" in untouched, "It was amended earlier, too" in untouched) == (False, False)
    assert "typo" in await page(f"/audit?job={first.id}&kind=amend")


async def test_the_last_decisions_can_be_sought_within_the_last_links(furnished: Standfast) -> None:
    await decide(furnished, 4)
    within: Any = await furnished.audit.last(10, within=2)
    assert [each["by"] for each in within] == ["person2", "person3"]
    assert within.since is not None
    every = await furnished.audit.last(10, within=4)
    assert ([each["by"] for each in every], every.since) == ([f"person{n}" for n in range(4)], None)
    assert (await furnished.audit.last(2, within=3)).since is None, "all that were wanted"
