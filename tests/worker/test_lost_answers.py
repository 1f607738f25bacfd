# ruff: noqa: SLF001 - answers are lost inside the engine
"""A commit whose answer is lost has landed: whoever decided is told that it is done, not that another came first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from standfast import JobView, Permanent, Standfast
from standfast.errors import NotALetter
from standfast.store.engine import CommitUnknown
from standfast.testing import drain

DECISIONS: dict[str, tuple[Callable[[Standfast, str], Any], str, str]] = {
    "replay": (lambda sf, job: sf.dead_letters.replay(job, by="anna", reason="again"), "queued", "replayed"),
    "discard": (lambda sf, job: sf.dead_letters.discard(job, by="anna", reason="no"), "cancelled", "discarded"),
    "resolve": (
        lambda sf, job: sf.dead_letters.resolve(job, by="anna", reason="seen", result=1),
        "completed",
        "resolved",
    ),
    "amend": (lambda sf, job: sf.dead_letters.amend(job, {"to": "b"}, by="anna", reason="typo"), "dead", "amended"),
    "quarantine": (lambda sf, job: sf.dead_letters.quarantine(job, by="anna", reason="odd"), "dead", "quarantined"),
}


async def letter(sf: Standfast) -> str:
    """Make one."""

    @sf.handler("mail")
    async def mail(_job: Any) -> None:
        raise Permanent("the address is wrong")

    receipt = await sf.enqueue("mail", {"to": "a"})
    await drain(sf)
    assert receipt.id is not None
    return receipt.id


def lose_next_answer(sf: Standfast, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have the next commit land, and its answer be lost; give what that left behind."""
    engine = sf._store._engine
    lost: list[str] = []
    commit = type(engine)._commit

    def unanswered(self: Any, connection: Any) -> None:
        commit(self, connection)
        if not lost:
            lost.append("answer")
            raise CommitUnknown("the answer is lost")

    monkeypatch.setattr(type(engine), "_commit", unanswered)
    return lost


@pytest.mark.parametrize("verb", DECISIONS)
async def test_a_decision_whose_answer_was_lost_is_told_as_made_and_is_made_once(sf, monkeypatch, verb):
    decide, state, word = DECISIONS[verb]
    job_id = await letter(sf)
    lost = lose_next_answer(sf, monkeypatch)
    await decide(sf, job_id)
    assert lost
    job = await sf.status(job_id)
    assert (job.state, [line.reason_code for line in job.history][1:]) == (state, [word])


async def test_of_two_amendments_decided_at_once_only_what_is_written_is_told_as_made(sf):
    job_id = await letter(sf)
    amends = [sf.dead_letters.amend(job_id, {"to": to}, by="anna", reason="typo") for to in ("b", "c")]
    answers = await asyncio.gather(*amends, return_exceptions=True)
    made = [answer for answer in answers if isinstance(answer, JobView)]
    assert {type(answer) for answer in answers} <= {JobView, NotALetter}
    job = await sf.status(job_id)
    assert [line.reason_code for line in job.history][1:] == ["amended"] * len(made)
    assert job.payload in [answer.payload for answer in made]
