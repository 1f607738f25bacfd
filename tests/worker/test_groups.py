"""Groups by fingerprint: hundreds of letters with one cause are one line, and one filter."""

from __future__ import annotations

from typing import Any

from standfast import Permanent
from standfast.testing import drain
from standfast.wings.letters import scripts as letters
from standfast.wings.records import listing, reads
from tests.store import behind
from tests.waiting import job_of
from tests.worker.governing import letter

ASKED: dict[str, Any] = {"by": "ann", "reason": "ticket 7"}


def failing(sf, **words) -> dict[str, str]:
    """Declare queues that fail with these words; `#` is the job's number."""
    for queue in words:
        sf.queue(queue, attempts=1)

        @sf.handler(queue)
        async def handle(job):
            said = words[job.queue]
            if said:
                raise Permanent(said.replace("#", str(job.payload["n"])), reason_code="denied")

    return words


async def test_letters_of_one_cause_are_one_group(sf):
    failing(sf, mail="order # is closed", chat="no such room")
    await sf.enqueue_many("mail", [{"n": n} for n in range(3)])
    await drain(sf)
    sf.clock.advance(60)
    newest = (await sf.enqueue("mail", {"n": 9})).id
    await sf.enqueue("chat", {"n": 1})
    await drain(sf)
    mail, chat = await sf.dead_letters.groups()
    assert (mail["count"], mail["queue"], mail["reason_code"], mail["sample"]) == (4, "mail", "denied", newest)
    assert (mail["message"][:17], mail["class"]) == ("order 9 is closed", "permanent")
    assert (mail["last_seen"] - mail["first_seen"]).total_seconds() == 60
    assert (chat["count"], chat["replayed"], chat["regressed"]) == (1, 0, 0)
    assert [group["count"] for group in await sf.dead_letters.groups({"queue": "chat"})] == [1]


async def test_a_groups_fingerprint_is_a_filter(sf):
    failing(sf, mail="order # is closed", chat="no such room")
    await sf.enqueue_many("mail", [{"n": n} for n in range(3)])
    await sf.enqueue("chat", {"n": 1})
    await drain(sf)
    print_ = {"fingerprint": (await sf.dead_letters.groups())[0]["fingerprint"]}
    assert [each.queue for each in await sf.dead_letters.list(print_)] == ["mail"] * 3
    assert (await sf.dead_letters.plan(print_))["letters"] == 3
    assert await sf.dead_letters.purge(print_, **ASKED, confirm=3) == {"purged": 3}
    assert [group["queue"] for group in await sf.dead_letters.groups()] == ["chat"]


async def test_looking_for_few_among_many_goes_on_where_it_stopped(sf, monkeypatch):
    """A page that skips many ends early, its cursor leads to the rest, and groups are counted to the end."""
    monkeypatch.setattr(listing, "LETTERS_LOOKED_THROUGH", 7)
    failing(sf, mail="order # is closed", rare="no such room")
    for number in range(30):
        await sf.enqueue("rare" if number % 10 == 3 else "mail", {"n": number})
    await drain(sf)
    pages: list[list[int]] = []
    cursor = None
    while not pages or cursor is not None:
        page = await sf.dead_letters.list({"queue": "rare"}, limit=2, cursor=cursor)
        pages.append([each.payload["n"] for each in page])
        cursor = page.next_cursor
    assert pages == [[23], [], [13], [3], []]
    assert [group["count"] for group in await sf.dead_letters.groups({"queue": "rare"})] == [3]
    assert (await sf.dead_letters.list(limit=30)).next_cursor is None


async def test_looking_twice_changes_nothing(sf):
    failing(sf, mail="order # is closed")
    await letter(sf)
    first = await sf.dead_letters.groups()
    stored = behind.rows(sf._store, "SELECT * FROM ending")  # noqa: SLF001
    assert await sf.dead_letters.groups() == first
    assert behind.rows(sf._store, "SELECT * FROM ending") == stored  # noqa: SLF001


async def test_a_letter_that_dies_of_the_same_again_is_a_regression(sf):
    words = failing(sf, mail="order # is closed", chat="no such room")
    mail, chat = await letter(sf), await letter(sf, "chat")
    await sf.dead_letters.groups()
    words["chat"] = "quite another thing"
    for job_id in (mail, chat):
        await sf.dead_letters.replay(job_id, by="ann")
        assert (await job_of(sf, job_id)).fingerprint is None
    await drain(sf)
    found = {group["queue"]: group for group in await sf.dead_letters.groups()}
    assert (found["mail"]["replayed"], found["mail"]["regressed"]) == (1, 1)
    assert (found["chat"]["replayed"], found["chat"]["regressed"]) == (1, 0)
    assert found["chat"]["message"].startswith("quite another thing")
    alike = {"fingerprint": found["chat"]["fingerprint"]}
    assert [group["queue"] for group in await sf.dead_letters.groups(alike)] == ["chat"]


async def test_what_moved_meanwhile_is_not_stamped(sf):
    """The fingerprint is that of the failure that was read."""
    failing(sf, mail="order # is closed")
    row = (await sf._store.read(reads.job(await letter(sf), sf._store.boot()))).row  # noqa: SLF001
    behind.change(sf._store, "UPDATE ending SET fingerprint = NULL")  # noqa: SLF001
    for token, stamped in ((row.token + 1, None), (row.token, "1-x")):
        await sf._store.write_all(letters.stamp, [(row.n, token, "1-x")])  # noqa: SLF001
        assert (await job_of(sf, row.id)).fingerprint == stamped


async def test_many_letters_are_read_in_bites(sf, monkeypatch):
    monkeypatch.setattr("standfast.wings.letters.groups.BITE", 2)
    failing(sf, mail="order # is closed")
    await sf.enqueue_many("mail", [{"n": n} for n in range(5)])
    await drain(sf)
    assert [group["count"] for group in await sf.dead_letters.groups()] == [5]
