"""Lists of jobs: every filter, alone and together, and what a page costs where it has to skip many."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from standfast import ConfigurationError, Permanent, Standfast, Transient, fixed
from standfast.lifecycle import VIEWS
from standfast.testing import drain
from standfast.wings.access.words import Reach
from standfast.wings.records import listing


@pytest.fixture(params=["memory", "postgres"])
async def sf(request: pytest.FixtureRequest) -> AsyncIterator[Standfast]:
    """Give a queue with a job in most of the places there are."""
    url = ":memory:" if request.param == "memory" else request.getfixturevalue("used_postgres_url")
    made = Standfast(url)
    made.queue("flaky", backoff=fixed(3600))
    made.handler("echo")(lambda job: job.payload)

    @made.handler("refused")
    async def refused(_job):
        raise Permanent('no "luck"', reason_code="schema_invalid", error_kind="Misfit")

    @made.handler("flaky")
    async def flaky(_job):
        raise Transient("later", reason_code="rate_limited", error_kind="Busy")

    async with made:
        yield made


async def filled(sf: Standfast) -> dict[str, str]:
    """Put one job into each place; give their ids."""
    asked: dict[str, tuple[str, Any, dict[str, Any]]] = {
        "done": ("echo", {"text": "grüße"}, {"labels": {"tenant": "a:b", "$": "x"}, "requester": "ann"}),
        "dead": ("refused", {"quote": 'say "hi"'}, {"thread_key": "thread-1", "requester": "bob"}),
        "retried": ("flaky", 3, {"session": "s'1", "labels": {"tenant": "c"}}),
        "later": ("echo", 4, {"delay": 3600, "session": "s'1", "idempotency_key": "order-7"}),
    }
    ids = {}
    for name, (queue, payload, options) in asked.items():
        ids[name] = str((await sf.enqueue(queue, payload, **options)).id)
        await drain(sf)
    ids["now"] = str((await sf.enqueue("echo", 5)).id)
    return ids


FITTING = {
    "": "now later retried dead done",
    "queue=echo": "now later done",
    "queue=nowhere": "",
    "handler=flaky": "retried",
    "handler=echo queue=flaky": "",
    "q=flak": "retried",
    "state=queued": "now later retried",
    "state=dead": "dead",
    "state=running": "",
    "view=scheduled": "later",
    "view=retry_pending": "retried",
    "view=queued": "now",
    "view=completed": "done",
    "view=dead": "dead",
    "reason_code=rate_limited": "retried",
    "reason_code=schema_invalid": "dead",
    "error_kind=Misfit": "dead",
    "error_kind=Busy": "retried",
    "thread_key=thread-1": "dead",
    "session=s'1": "later retried",
    "session=s'1 view=retry_pending": "retried",
    "label=tenant": "retried done",
    "label=tenant:c": "retried",
    "label=tenant:a:b": "done",
    "label=$": "done",
    "label=ten": "",
    "q=order-": "later",
    "q=grüße": "done",
    "q=thread": "dead",
    'q="luck"': "dead",
    'q="hi"': "dead",
    "q=%": "",
    "queue=echo state=queued": "now later",
}


async def test_each_filter_finds_what_it_names(sf: Standfast) -> None:
    """On every store alike."""
    ids = await filled(sf)
    names = {job: name for name, job in ids.items()}
    for asked, fitting in FITTING.items():
        wanted: dict[str, Any] = dict(part.split("=", 1) for part in asked.split())
        page = await sf.jobs(**wanted)
        assert " ".join(names[job.id] for job in page) == fitting, asked
        assert page.next_cursor is None, asked
    for word in VIEWS:
        assert all(job.view == word for job in await sf.jobs(view=word))


async def test_reach_bounds_what_is_found(sf: Standfast) -> None:
    """Queues, whose it is, and no guessing at payloads by looking for parts of them."""
    ids = await filled(sf)
    assert {job.queue for job in await sf.jobs(reach=Reach(queues=("refused", "flaky")))} == {"refused", "flaky"}
    assert [job.id for job in await sf.jobs(reach=Reach(requester="ann"))] == [ids["done"]]
    blind = Reach(payloads=False)
    assert await sf.jobs(q="grüße", reach=blind) == await sf.jobs(q='"luck"', reach=blind) == []
    assert [job.id for job in await sf.jobs(q="thread", reach=blind)] == [ids["dead"]]


async def test_a_page_that_skips_many_ends_early_and_says_so(sf: Standfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cursor goes on from there; nothing is left out and nothing comes twice."""
    monkeypatch.setattr(listing, "LOOKED_THROUGH", 7)
    for number in range(30):
        await sf.enqueue("rare" if number % 10 == 3 else "echo", number)
    found: list[int] = []
    looked, cursor = 0, None
    for _ in range(30):
        page = await sf.jobs(queue="rare", limit=2, cursor=cursor)
        assert page.scanned is not None
        assert page.scanned <= 7
        looked += page.scanned
        found += [job.payload for job in page]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == [23, 13, 3]
    assert looked >= 30


async def test_pages_follow_each_other_without_gaps(sf: Standfast) -> None:
    """Each job once, the newest first, and no cursor after the last."""
    for number in range(7):
        await sf.enqueue("echo", number)
    first = await sf.jobs(limit=4)
    rest = await sf.jobs(limit=4, cursor=first.next_cursor)
    assert [job.payload for job in [*first, *rest]] == [6, 5, 4, 3, 2, 1, 0]
    assert rest.next_cursor is None
    whole = await sf.jobs(limit=7)
    assert (len(whole), whole.next_cursor) == (7, None)


@pytest.mark.parametrize(
    "wanted",
    [{"state": "gone"}, {"view": "x"}, {"q": "\0"}, {"label": "\ud800"}, {"q": "x" * 501}, {"limit": 0}, {"cursor": 0}],
)
async def test_what_no_store_can_be_asked_for_is_refused(sf: Standfast, wanted: dict[str, Any]) -> None:
    """With an error of ours."""
    with pytest.raises(ConfigurationError):
        await sf.jobs(**wanted)
