"""Letters are found by what they hold: handler, label, text, a path of the payload, and when they stopped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from standfast import Permanent, Standfast
from standfast.errors import ConfigurationError
from standfast.testing import drain
from standfast.typed.letter_options import LetterFilter
from standfast.wings.records import listing
from standfast.wings.records.letter_filter import as_filter


@pytest.fixture(params=["memory", "postgres"])
async def sf(request: pytest.FixtureRequest) -> AsyncIterator[Standfast]:
    url = ":memory:" if request.param == "memory" else request.getfixturevalue("used_postgres_url")
    made = Standfast(url)

    @made.handler("mail", name="send")
    @made.handler("mail", name="digest")
    async def refused(job: Any) -> None:
        raise Permanent(f'no "{job.payload["to"]}" here')

    async with made:
        yield made


@pytest.fixture
async def letters(sf: Standfast) -> dict[str, str]:
    """Give letters that differ in everything that is looked for."""
    ann = await sf.enqueue("mail", {"to": "ann", "customer": {"id": 42}, "vip": True}, handler="send")
    bob = await sf.enqueue(
        "mail",
        {"to": 'b"ob', "customer": {"id": "42"}, "vip": None},
        handler="digest",
        labels={"tenant": "acme", "7": "x.y"},
        idempotency_key="order-7",
    )
    cat = await sf.enqueue("mail", {"to": "cät", "items": ["a", 0]}, handler="send", labels={"tenant": "other"})
    await drain(sf)
    return {"ann": str(ann.id), "bob": str(bob.id), "cat": str(cat.id)}


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ({"handler": "digest"}, ["bob"]),
        ({"label": "tenant"}, ["cat", "bob"]),
        ({"label": "tenant:acme"}, ["bob"]),
        ({"label": "7:x.y"}, ["bob"]),
        ({"label": "absent"}, []),
        ({"text": "cät"}, ["cat"]),
        ({"text": 'b"ob'}, ["bob"]),
        ({"text": "order-7"}, ["bob"]),
        ({"text": '"ann" here'}, ["ann"]),
        ({"payload.customer.id": 42}, ["ann"]),
        ({"payload.customer.id": "42"}, ["bob", "ann"]),
        ({"payload": "customer.id=42", "handler": "send"}, ["ann"]),
        ({"payload": ("customer.id", 42)}, ["ann"]),
        ({"payload.vip": True}, ["ann"]),
        ({"payload": "vip=null"}, ["bob"]),
        ({"payload.to": 'b"ob'}, ["bob"]),
        ({"payload.customer": "x"}, []),
        ({"payload.to.deeper": "x"}, []),
        ({"since": datetime.now(UTC) - timedelta(hours=1)}, ["cat", "bob", "ann"]),
        ({"since": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}, []),
        ({"until": datetime.now(UTC) - timedelta(hours=1)}, []),
        ({"until": (datetime.now(UTC) + timedelta(hours=1)).timestamp(), "label": "tenant"}, ["cat", "bob"]),
    ],
)
async def test_letters_are_listed_grouped_planned_and_exported_alike(
    sf: Standfast, letters: dict[str, str], chosen: Any, found: list[str], tmp_path
) -> None:
    assert [letter.id for letter in await sf.dead_letters.list(chosen)] == [letters[name] for name in found]
    assert sum(group["count"] for group in await sf.dead_letters.groups(chosen)) == len(found)
    assert (await sf.dead_letters.plan(chosen))["letters"] == len(found)
    written = await sf.dead_letters.export(tmp_path / "letters.jsonl", chosen, by="ann")
    assert written["letters"] == len(found)


@pytest.mark.parametrize(
    "wrong",
    [
        {"payload": "customer.id"},
        {"payload.items.0": "a"},
        {'payload.a"b': 1},
        {"payload.": 1},
        {"payload": 7},
        {"payload": ("a", 1, 2)},
        {"payload.a": 1, "payload.b": 2},
        {"since": "yesterday"},
        {"since": "2026-12-24T18:00:00"},
        {"text": ""},
        {"label": "a\nb"},
        {"payloads": 1},
    ],
)
async def test_a_filter_that_means_nothing_is_refused(sf: Standfast, wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        await sf.dead_letters.list(wrong)


async def test_a_secret_header_of_a_request_is_not_found_by_trial(sf: Standfast) -> None:
    """No view shows it, so no filter may tell what it is."""
    sf.queue("hooks", attempts=1, destinations=["127.0.0.1"])
    url = "http://127.0.0.1:9/hook"
    await sf.enqueue_http("hooks", "POST", url, body={"n": "sought"}, headers={"Authorization": "s3cret"})
    await drain(sf)
    of_hooks: LetterFilter = {"queue": "hooks"}
    assert len(await sf.dead_letters.list(as_filter({**of_hooks, "text": "sought"}))) == 1
    assert len(await sf.dead_letters.list(as_filter({**of_hooks, "text": "127.0.0.1:9/hook"}))) == 1
    assert len(await sf.dead_letters.list(as_filter({**of_hooks, "text": "s3cret"}))) == 0
    assert len(await sf.dead_letters.list(as_filter({**of_hooks, "payload.headers.Authorization": "s3cret"}))) == 0
    assert len(await sf.dead_letters.list(as_filter({**of_hooks, "payload.body.n": "sought"}))) == 1


async def test_letters_are_purged_by_time_and_handler_and_never_by_what_a_payload_holds(
    sf: Standfast, letters: dict[str, str]
) -> None:
    for chosen in (as_filter({"text": "ann"}), as_filter({"payload.to": "ann"})):
        with pytest.raises(ConfigurationError, match="letters are not purged by"):
            await sf.dead_letters.purge(chosen, by="ann", reason="old", confirm=len(letters))
    later = datetime.now(UTC) + timedelta(hours=1)
    with pytest.raises(ConfigurationError, match="0 letters match"):
        await sf.dead_letters.purge({"since": later}, by="ann", reason="old", confirm=1)
    done = await sf.dead_letters.purge({"handler": "digest", "until": later}, by="ann", reason="old", confirm=1)
    assert done == {"purged": 1}
    assert {letter.id for letter in await sf.dead_letters.list()} == {letters["ann"], letters["cat"]}


async def test_one_look_passes_a_bounded_number_of_letters_and_nothing_is_missed(
    sf: Standfast, letters: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page may be empty and go on; a plan and the groups go on by themselves."""
    monkeypatch.setattr(listing, "LETTERS_LOOKED_THROUGH", 1)
    chosen = as_filter({"payload.to": "ann"})
    first = await sf.dead_letters.list(chosen)
    assert list(first) == []
    assert first.next_cursor is not None
    pages = [first]
    while pages[-1].next_cursor is not None:
        pages.append(await sf.dead_letters.list(chosen, cursor=pages[-1].next_cursor))
    assert [letter.id for page in pages for letter in page] == [letters["ann"]]
    assert (await sf.dead_letters.plan(chosen))["letters"] == 1
    assert [group["count"] for group in await sf.dead_letters.groups(chosen)] == [1]
