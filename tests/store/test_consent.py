"""Consent in the store: which of the jobs that wait for it are read as answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from standfast.failure import Class
from standfast.rules import QueueRules, fixed
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text
from standfast.store.store import Store
from standfast.wings.audit.words import Decision
from standfast.wings.consent import scripts as consents
from standfast.wings.consent.scripts import START, ConsentRequest, GrantRequest
from standfast.wings.consent.verbs import BLANKET
from standfast.wings.consent.words import Attempt, Grant, ruling
from tests.store.suite import Look, claimed, ended, enqueued, failed, new_job, publish

RULES = QueueRules(backoff=fixed(60), attempts=9)
SCOPES = [("pay", "charge"), ("pay", "refund"), ("other", "charge"), BLANKET]
USES = [(None, 0), (1, 0), (1, 1)]


@writes()
def ask(round_: Round, numbers: Sequence[int]) -> Script[list[None]]:
    """File the requests of jobs, as the move does that holds them."""
    yield "file_asks", {"numbers": text([*numbers]), "now": round_.now}
    return [None] * len(numbers)


@writes()
def use(round_: Round, uses: Sequence[tuple[str, str]]) -> Script[list[None]]:
    """Spend a use of a grant for a job."""
    for grant, job in uses:
        yield "spend_consent", {"id": grant, "job": job, "now": round_.now}
    return [None] * len(uses)


def answered(now: float) -> Script[list[ConsentRequest]]:
    """Read all requests that the statement takes for answered."""
    return [ConsentRequest(*row) for row in (yield "answered_asks", {"now": now, **START._asdict(), "limit": 10_000})]


async def asking(store: Store, look: Look, sessions: Sequence[str], *, again: bool) -> dict[int, str]:
    """Have a job of each session ask for consent, for the first time or for a repeat; give their numbers and ids."""
    publish(store, pay=RULES)
    jobs = [new_job("pay", handler="charge", details=text({"session": session})) for session in sessions]
    ids = await enqueued(store, *jobs)
    if again:
        for claim in await claimed(store, "pay", slots=len(ids), handlers=("charge",)):
            await ended(store, claim, failed(Class.TRANSIENT), RULES)
    numbers: dict[int, str] = dict(look("SELECT n, id FROM body ORDER BY n")[-len(ids) :])
    await store.write_all(ask, [*numbers])
    assert [*numbers.values()] == ids
    return numbers


def grants(now: float) -> Iterator[dict[str, Any]]:
    """Give every kind of grant and denial: for whom, with how many uses, in force or not."""
    for mode, (queue, handler), (uses, used), expires, revoked in product(
        ["always", "deny"], SCOPES, USES, [now, now + 60], [None, now]
    ):
        yield {
            "mode": mode, "queue": queue, "handler": handler, "uses": uses, "used": used, "expires_at": expires,
            "revoked_at": revoked, "given_by": "anna", "reason": None, "granted_at": now,
        }  # fmt: skip


async def test_the_statement_takes_for_answered_what_the_rule_can_answer_and_nothing_else(store, look):
    """What it took besides would stay the oldest of every batch, and keep all others waiting."""
    now = store.now()
    kinds = [(*each, again) for again in (True, False) for each in product(grants(now), [False, True])]
    sessions = [f"s-{place}" for place in range(len(kinds))]
    half = len(kinds) // 2
    ids = [*(await asking(store, look, sessions[:half], again=True)).values()]
    ids += (await asking(store, look, sessions[half:], again=False)).values()
    expected = set()
    for session, job, (given, has_use, again) in zip(sessions, ids, kinds, strict=True):
        grant = Grant(id=session, session=session, **given)
        await store.write(consents.give, GrantRequest(grant, Decision(kind="grant")))
        if has_use:
            await store.write(use, (grant.id, job))
        attempt = Attempt(session, "pay", "charge", job, first=not again)
        if ruling(attempt, [grant], [grant.id] * has_use, now).verdict != "ask":
            expected.add(attempt)
    found = await store.read(answered(now))
    assert {each.attempt for each in found} == expected
    assert {each.first for each in found} == {0, 1}


async def test_a_batch_begins_behind_the_last_request_of_the_one_before(store, look, monkeypatch):
    monkeypatch.setattr(consents, "BITE", 2)
    numbers = [*await asking(store, look, ["s"] * 5, again=False)]
    given = next(each for each in grants(store.now()) if each["expires_at"] > store.now())
    await store.write(consents.give, GrantRequest(Grant(id="g", session="s", **given), Decision(kind="grant")))
    batches: list[list[int]] = []
    after: consents.Place | None = START
    while after is not None:
        found, after = await store.read(consents.answered_requests(store.now(), after))
        batches.append([each.n for each, _ in found])
    assert batches == [numbers[:2], numbers[2:4], numbers[4:]]
