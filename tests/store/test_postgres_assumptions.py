"""A round on PostgreSQL waits for little: the server checks what it takes for granted, and a mistake loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from standfast.errors import StoreUnusable
from standfast.job import Claim
from standfast.outcome import Succeeded
from standfast.rules import DEFAULTS
from standfast.spine import intake
from standfast.spine.apply import apply
from standfast.spine.claim import LARGEST_BROUGHT
from standfast.store.postgres import assumptions
from standfast.store.postgres.session import Session
from standfast.store.steps import Script, text
from standfast.store.store import Store
from standfast.wings.jobs import scripts as operations
from standfast.worker.settling import settle
from tests.postgres import connect
from tests.store.suite import Look, claim_one, claimed, ended, enqueued, new_job, one, states


@pytest.fixture
def url(used_postgres_url: str) -> str:
    return used_postgres_url


@pytest.fixture
async def warm(store: Store) -> Store:
    """Give a store whose writer has enqueued, claimed and ended often enough to take things for granted."""
    for _ in range(4):
        await one(store)
        await ended(store, await claim_one(store), Succeeded(None))
    return store


@contextmanager
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Session]]:
    """Note each time that the server is waited for."""
    found: list[Session] = []
    collected = Session._collected  # noqa: SLF001 - every answer is waited for there

    def noting(session: Session) -> Any:
        found.append(session)
        return collected(session)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "_collected", noting)
        yield found


async def test_a_plain_job_waits_for_the_server_four_times(warm: Store, monkeypatch):
    """Once for its place in the queue, twice for its claim, once for its end."""
    with waits(monkeypatch) as enqueueing:
        await one(warm)
    with waits(monkeypatch) as claiming:
        claim = await claim_one(warm)
    end = settle(claim, Succeeded(None), DEFAULTS, 0.0)
    with waits(monkeypatch) as ending:
        assert await warm.write_all(apply, [end]) == [True]
    assert [len(enqueueing), len(claiming), len(ending)] == [1, 2, 1]


async def test_rules_that_another_process_changed_hold_for_the_next_job(warm: Store, url, look: Look):
    with connect(url) as other:
        other.execute("UPDATE queue SET priority = 70 WHERE name = 'mail'")
    job_id = await one(warm)
    assert look(f"SELECT j.priority FROM job AS j JOIN body AS b ON b.n = j.n WHERE b.id = '{job_id}'") == [(70,)]  # noqa: S608


async def test_a_queue_that_another_process_paused_gives_nothing(warm: Store, url):
    await one(warm)
    with connect(url) as other:
        other.execute("UPDATE queue SET paused = 1 WHERE name = 'mail'")
    assert await claimed(warm) == []


async def test_a_job_that_is_here_already_is_stored_and_told_once(warm: Store, look: Look):
    """Its first answer was lost: whoever hands it in again does not know that it is here."""
    before = look("SELECT value FROM counter WHERE name = 'enqueued'")
    again, fresh = new_job(), new_job()
    await enqueued(warm, again)
    answers = await warm.write_all(intake.enqueue, [again, fresh])
    assert [answer.outcome for answer in answers] == ["accepted", "accepted"]  # type: ignore[union-attr]
    assert await states(warm, again.id, fresh.id) == ["queued", "queued"]
    assert look("SELECT value FROM counter WHERE name = 'enqueued'") == [(before[0][0] + 2,)]


async def test_of_several_ends_only_those_land_that_still_have_their_token(warm: Store, url):
    ids = await enqueued(warm, new_job(), new_job())
    first, second = await claimed(warm, slots=2)
    with connect(url) as other:
        other.execute("UPDATE job SET token = 2 WHERE n = %s", (first.n,))
    ends = [settle(claim, Succeeded(None), DEFAULTS, 0.0) for claim in (first, second)]
    assert await warm.write_all(apply, ends) == [False, True]
    assert sorted(await states(warm, *ids)) == ["completed", "running"]


async def test_a_schema_that_became_too_new_is_noticed_by_the_next_round(warm: Store, url):
    """The round before was a moment ago, so BEGIN is not waited for: nothing may be written all the same."""
    with connect(url) as other:
        other.execute("UPDATE schema SET readable_by = 9999")
        with pytest.raises(StoreUnusable, match="9999"):
            await one(warm)
        assert other.execute("SELECT count(*) FROM body").fetchall() == [(4,)]


async def test_a_server_whose_clock_was_set_is_asked_for_the_time(warm: Store, monkeypatch):
    """A job that is enqueued now is due now, by the clock that all processes share."""
    engine: Any = warm._engine  # noqa: SLF001 - nobody else may set this server's clock
    time = engine._time  # noqa: SLF001
    time.set(time.expected() - 3600)  # as if it had been an hour earlier there a moment ago
    with waits(monkeypatch) as enqueueing:
        await one(warm)
    assert len(enqueueing) > 1, "the round that reckoned with another time was not written"
    assert len(await claimed(warm)) == 1


async def test_a_number_that_another_job_has_by_now_refuses_no_job(warm: Store, url, monkeypatch):
    """Numbers come with an earlier answer; a store that was moved here meanwhile may have brought jobs with them."""
    monkeypatch.setattr(assumptions, "NUMBERS_KEPT", 60.0)
    await one(warm)
    known: Any = warm._engine._connection.session.assumptions  # type: ignore[union-attr]  # noqa: SLF001
    taken = [n for (n,) in known._numbers]  # noqa: SLF001 - as if another process had given them
    assert taken
    with connect(url) as other:
        for n in taken:
            row = (n, f"moved-{n}")
            other.execute("INSERT INTO body (n, id, payload, details, created_at) VALUES (%s, %s, '{}', '{}', 0)", row)
    job_id = await one(warm)
    assert await states(warm, job_id) == ["queued"]


async def test_a_producer_of_many_queues_does_not_grow(warm: Store, monkeypatch):
    """Each set of queues that share a round is a question of its own, and there is no end of sets."""
    monkeypatch.setattr(assumptions, "MOST_ANSWERS", 5)
    for turn in range(12):
        await enqueued(warm, new_job("mail"), new_job(f"queue-{turn}"))
    for turn in range(12):
        await enqueued(warm, new_job("mail"), new_job(f"queue-{turn}"))
    known: Any = warm._engine._connection.session.assumptions  # type: ignore[union-attr]  # noqa: SLF001
    assert len(known._told) <= 5  # noqa: SLF001


async def test_what_one_writer_learned_of_rules_does_not_bind_the_other(warm: Store):
    """Claims and everything else are on two connections, and each remembers what the server told it."""
    await one(warm)
    await warm.write(operations.pause, ("mail", True))
    assert await claimed(warm) == []
    await warm.write(operations.pause, ("mail", False))
    assert len(await claimed(warm)) == 1


def read_again(claims: list[Claim]) -> Script[list[Claim]]:
    numbers = text([claim.n for claim in claims])
    [(found,)] = yield "held_claims", {"numbers": numbers, "since": 1, "most": LARGEST_BROUGHT}
    return [replace(claim, plain=True) for claim in msgspec.json.decode(found, type=list[Claim])]


@pytest.mark.parametrize(
    "given",
    [{}, {"lease": 7.0, "budget": 2, "expires": 4e9}, {"first_seen_at": 1.0}, {"idempotency_key": "a"}],
    ids=["plain", "with options", "long wanted", "with a key"],
)
async def test_a_claim_that_is_made_at_once_is_what_is_read_of_it(warm: Store, given: dict[str, Any]):
    await enqueued(warm, new_job(**given), new_job())
    claims = await claimed(warm, slots=2)
    assert len(claims) == 2
    assert await warm.read(read_again(claims)) == [replace(claim, plain=True) for claim in claims]
