"""What people do to letters: discard, quarantine, amend, purge. One wins, and every deed leaves who and why behind."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest

from standfast import ConfigurationError, JobView, PayloadRejected, Permanent, Standfast
from standfast.errors import ApprovalRefused, NotALetter, UnknownJob
from standfast.job import HTTP
from standfast.testing import drain
from standfast.views import Progress
from standfast.wings.audit.words import Decision
from standfast.wings.letters import scripts
from standfast.wings.letters.scripts import Amendment, LetterDecision
from standfast.wings.notices.journal import journal
from standfast.wings.records import reads
from standfast.wings.replays.returning import standing
from tests.store import behind
from tests.waiting import job_of
from tests.worker.governing import Rulebook, broken, govern, letter
from tests.worker.inside import store_of

ASKED: dict[str, Any] = {"by": "ann", "reason": "ticket 7"}


async def chained(sf: Standfast, kind: str) -> list[dict[str, Any]]:
    """Give the decisions of a kind; the chain must be whole."""
    assert (await sf.audit.verify())["ok"]
    return await sf.audit.entries(kind=kind, limit=1000)


async def notices(sf: Standfast, kind: str) -> list[str]:
    """Give the jobs that notices of a kind were about."""
    rows = await journal(sf._store, 0, 10_000)  # noqa: SLF001 - a look at what was told, without waiting for more
    entries = [entry for row in rows for entry in msgspec.json.decode(row.entries)]
    return [job for told, _, ids in entries if told == kind for job in ids]


def triage(job: JobView) -> tuple[str, str | None]:
    assert job.triage is not None
    return job.triage.replay_status, job.triage.owner


async def held(sf: Standfast) -> tuple[str, str]:
    """Give a letter that waits for an approval, and that."""
    govern(sf, Rulebook("require_approval"))
    job_id = await letter(sf)
    answer = await sf.dead_letters.replay(job_id, by="alex")
    return job_id, answer["approval"]


async def outcomes(calls: list[Any]) -> tuple[int, list[BaseException]]:
    """Let all of them try at once; give how many won, and what the others were told."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    lost = [answer for answer in answers if isinstance(answer, BaseException)]
    return len(answers) - len(lost), lost


class TestDiscard:
    async def test_ends_a_letter_for_good(self, sf):
        broken(sf, "mail")
        job_id = await letter(sf)
        gone = await sf.dead_letters.discard(job_id, **ASKED)
        assert (gone.state, gone.failure, triage(gone)[0]) == ("cancelled", None, "discarded")
        last = gone.history[-1]
        assert (last.reason_code, last.by, last.reason, last.attempt) == ("discarded", "ann", "ticket 7", 1)
        [entry] = await chained(sf, "discard")
        assert (entry["job"], entry["by"], entry["reason"], entry["outcome"]) == (job_id, *ASKED.values(), "discarded")
        assert entry["payload_sha256"] == gone.payload_sha256
        assert await notices(sf, "discarded") == [job_id]
        await drain(sf)
        assert (await job_of(sf, job_id)).state == "cancelled"

    async def test_takes_a_held_letter_and_its_approval(self, sf):
        broken(sf, "mail")
        job_id, approval = await held(sf)
        await sf.dead_letters.discard(job_id, **ASKED)
        assert (await sf.approvals.get(approval))["state"] == "void"
        with pytest.raises(ApprovalRefused):
            await sf.approvals.approve(approval, by="bea")

    async def test_one_of_many_wins_and_the_others_are_told(self, sf):
        broken(sf, "mail")
        job_id = await letter(sf)
        won, lost = await outcomes([sf.dead_letters.discard(job_id, by=f"p{n}", reason="r") for n in range(32)])
        assert (won, {type(error) for error in lost}) == (1, {NotALetter})
        told = ("another decision came first", "is not a letter: it is cancelled")  # by when each of them read it
        assert [error for error in lost if not any(words in str(error) for words in told)] == []
        assert len(await chained(sf, "discard")) == len(await notices(sf, "discarded")) == 1

    async def test_to_cancel_a_letter_is_chained_too(self, sf):
        broken(sf, "mail")
        job_id = await letter(sf)
        waits = await sf.enqueue("mail", {"n": 1}, delay=60)
        for each in (job_id, waits.id):
            assert (await sf.cancel(each)).state == "cancelled"
        assert [(entry["job"], entry["outcome"]) for entry in await chained(sf, "discard")] == [(job_id, "cancelled")]


class TestAnyVerb:
    async def test_one_of_many_different_deeds_wins(self, sf):
        broken(sf, "mail")
        job_id = await letter(sf)
        letters = sf.dead_letters
        calls = []
        for n in range(8):
            asked = {"by": f"p{n}", "reason": "r"}
            calls += [letters.discard(job_id, **asked), letters.amend(job_id, {"n": n + 2}, **asked)]
            calls += [letters.replay(job_id, **asked), letters.quarantine(job_id, **asked)]
        won, lost = await outcomes(calls)
        assert {type(error) for error in lost} <= {NotALetter}
        chain = [entry for entry in await sf.audit.entries(limit=100) if entry.get("job") == job_id]
        assert len(chain) == won
        # Whatever won at first left a letter, or not: what is read together is decided once.
        ends = [entry for entry in chain if entry["kind"] in {"discard", "replay"}]
        assert len(ends) <= 1
        assert (await sf.audit.verify())["ok"]

    @pytest.mark.parametrize("verb", ["discard", "quarantine", "amend"])
    async def test_needs_a_letter_and_somebody_with_a_reason(self, sf, verb):
        broken(sf, "mail")
        job_id = await letter(sf)
        do = getattr(sf.dead_letters, verb)
        given = [{"n": 2}] if verb == "amend" else []
        for wrong in ({"by": "ann", "reason": " "}, {"by": "", "reason": "r"}, {"by": "ann", "reason": None}):
            with pytest.raises(ConfigurationError, match="nothing was changed"):
                await do(job_id, *given, **wrong)
        waiting = (await sf.enqueue("mail", {"n": 1})).id
        with pytest.raises(NotALetter, match="it is queued"):
            await do(waiting, *given, **ASKED)
        with pytest.raises(UnknownJob):
            await do("nobody", *given, **ASKED)
        assert await sf.audit.entries() == []

    async def test_names_and_reasons_from_outside_are_kept_harmless(self, sf):
        broken(sf, "mail")
        job_id = await letter(sf)
        for name in ("ann\x1b[2J", "a\u200bnn", "\ud800", " "):
            with pytest.raises(ConfigurationError, match="by must be a person's name"):
                await sf.dead_letters.discard(job_id, by=name, reason="over")
        await sf.dead_letters.discard(job_id, by="ann", reason="password=hunter2\ud800\x1b[2J")
        [entry] = await chained(sf, "discard")
        assert "\x1b" not in entry["reason"]
        assert "hunter2" not in entry["reason"]


class TestQuarantine:
    async def test_sets_a_letter_apart_for_its_owner(self, sf):
        broken(sf, "mail")
        job_id = await letter(sf)
        apart = await sf.dead_letters.quarantine(job_id, **ASKED, owner="integration")
        assert (apart.state, triage(apart)) == ("dead", ("quarantined", "integration"))
        assert apart.failure is not None
        assert apart.history[-1].reason_code == "quarantined"
        [entry] = await chained(sf, "quarantine")
        assert (entry["job"], entry["detail"]) == (job_id, {"owner": "integration"})
        assert await notices(sf, "quarantined") == [job_id]
        assert [each.id for each in await sf.dead_letters.list({"replay_status": "quarantined"})] == [job_id]
        again = await sf.dead_letters.quarantine(job_id, by="bea", reason="still")
        assert triage(again) == ("quarantined", "integration")

    async def test_a_held_letter_is_dead_then_and_its_approval_void(self, sf):
        broken(sf, "mail")
        job_id, approval = await held(sf)
        apart = await sf.dead_letters.quarantine(job_id, **ASKED)
        assert (apart.state, triage(apart)[0]) == ("dead", "quarantined")
        assert apart.history[-1].reason_code == "quarantined"
        assert (await sf.approvals.get(approval))["state"] == "void"
        assert [entry["job"] for entry in await chained(sf, "quarantine")] == [job_id]

    async def test_can_still_be_replayed_by_a_person(self, sf):
        broken(sf, "mail").clear()
        failing = broken(sf, "chat")
        job_id = await letter(sf, "chat")
        await sf.dead_letters.quarantine(job_id, **ASKED)
        failing.clear()
        assert (await sf.dead_letters.replay(job_id, by="ann"))["outcome"] == "replayed"


class TestAmend:
    async def test_the_amended_payload_runs(self, sf):
        failing = broken(sf, "mail")
        job_id = await letter(sf)
        before = (await sf.dead_letters.get(job_id)).payload_sha256
        amended = await sf.dead_letters.amend(job_id, {"n": 2, "note": "x" * 50, "password": "hunter2"}, **ASKED)
        assert (amended.state, amended.generation, amended.payload["n"]) == ("dead", 1, 2)
        assert amended.history[-1].reason_code == "amended"
        assert triage(amended)[0] == "pending_review"
        [entry] = await chained(sf, "amend")
        assert entry["payload_sha256"] == amended.payload_sha256
        assert entry["detail"] == {
            "before_sha256": before,
            "after_sha256": amended.payload_sha256,
            "generation": 1,
            "changed": {
                "payload.n": [1, 2],
                "payload.note": ["nothing", "text of 50 characters"],
                "payload.password": ["***", "***"],
            },
        }
        assert await notices(sf, "amended") == [job_id]
        failing.clear()
        await sf.dead_letters.replay(job_id, by="ann")
        await drain(sf)
        done = await job_of(sf, job_id)
        assert (done.state, done.result["done"]["n"]) == ("completed", 2)

    async def test_the_old_key_still_answers_and_receivers_get_a_new_one(self, sf):
        sf.queue("mail", attempts=1)
        keys = []

        @sf.handler("mail")
        async def handle(job):
            keys.append(job.idempotency_key)
            raise Permanent("no")

        receipt = await sf.enqueue("mail", {"n": 1}, idempotency_key="k")
        bare = await sf.enqueue("mail", {"n": 1})
        await drain(sf)
        for number in (2, 3):
            for job_id in (receipt.id, bare.id):
                await sf.dead_letters.amend(job_id, {"n": number}, **ASKED)
                await sf.dead_letters.replay(job_id, by="ann")
                await drain(sf)
        assert keys == ["k", bare.id, "k~g1", f"{bare.id}~g1", "k~g2", f"{bare.id}~g2"]
        for key, number in (("k", 1), ("k~g1", 2), ("k~g2", 3)):
            again = await sf.enqueue("mail", {"n": number}, idempotency_key=key)
            assert (again.outcome, again.id) == ("duplicate", receipt.id)
        assert (await job_of(sf, bare.id)).idempotency_key is None

    async def test_a_key_that_another_job_has_is_not_taken(self, sf):
        broken(sf, "mail")
        mine = await sf.enqueue("mail", {"n": 1}, idempotency_key="k")
        other = await sf.enqueue("mail", {"n": 9}, idempotency_key="k~g1")
        await drain(sf)
        amended = await sf.dead_letters.amend(mine.id, {"n": 2}, **ASKED)
        assert amended.idempotency_key == f"k~g1~{mine.id}"
        assert (await sf.enqueue("mail", {"n": 9}, idempotency_key="k~g1")).id == other.id

    async def test_passes_the_same_door_as_a_new_payload(self, sf):
        class Order(msgspec.Struct):
            n: int

        sf.queue("mail", attempts=1)

        @sf.handler("mail", input=Order)
        async def handle(_job):
            raise Permanent("no")

        job_id = await letter(sf)
        for wrong in ({"n": "two"}, {"n": float("nan")}, {"n": 1, "text": "\0"}, {"n": 1}):
            with pytest.raises(PayloadRejected, match="nothing was written"):
                await sf.dead_letters.amend(job_id, wrong, **ASKED)
        unchanged = await sf.dead_letters.get(job_id)
        assert (unchanged.generation, unchanged.payload) == (0, {"n": 1})
        assert await sf.audit.entries() == []

    async def test_a_request_keeps_the_headers_a_person_was_not_shown(self, sf):
        sf.queue("web", attempts=1, destinations=["127.0.0.1"])
        url = "http://127.0.0.1:9/x"
        receipt = await sf.enqueue_http("web", "POST", url, body={"n": 1}, headers={"Authorization": "Bearer s3cret"})
        await drain(sf)
        shown = (await sf.dead_letters.get(receipt.id)).payload
        assert shown["headers"] == {"Authorization": "***"}
        await sf.dead_letters.amend(receipt.id, {**shown, "body": {"n": 2}}, **ASKED)
        record = await sf._store.read(reads.job(receipt.id, sf._store.boot()))  # noqa: SLF001 - what is stored, not what is shown
        stored = msgspec.json.decode(record.row.payload)
        assert (stored["headers"], stored["body"], record.row.handler) == (
            {"Authorization": "Bearer s3cret"},
            {"n": 2},
            HTTP,
        )
        with pytest.raises(PayloadRejected, match=r"10\.0\.0\.1"):
            await sf.dead_letters.amend(receipt.id, {**shown, "url": "http://10.0.0.1/", "headers": {}}, **ASKED)
        [entry] = await chained(sf, "amend")
        assert "s3cret" not in str(entry)

    @pytest.mark.parametrize(
        "elsewhere",
        [
            "http://evil.example/x",
            "http://127.0.0.1:8/x",
            "https://127.0.0.1:9/x",
            "http://127.0.0.1/x",
            "http://127.0.0.1:9.evil.example/x",
            "http://127.0.0.1:9@evil.example/",
            "http://[",
            None,
        ],
    )
    async def test_sends_a_header_that_was_not_shown_to_no_other_host(self, sf, elsewhere):
        sf.queue("web", attempts=1, destinations=["127.0.0.1", "evil.example"])
        secret = {"Authorization": "Bearer s3cret", "X-Plain": "a"}
        receipt = await sf.enqueue_http("web", "POST", "http://127.0.0.1:9/x", body={"n": 1}, headers=secret)
        await drain(sf)
        shown = (await sf.dead_letters.get(receipt.id)).payload
        with pytest.raises(PayloadRejected, match="hidden Authorization header"):
            await sf.dead_letters.amend(receipt.id, {**shown, "url": elsewhere}, **ASKED)
        assert (await sf.dead_letters.get(receipt.id)).generation == 0
        await sf.dead_letters.amend(receipt.id, {**shown, "url": "http://127.0.0.1:9/y"}, **ASKED)
        plain = {**shown, "url": "http://evil.example/", "headers": {"X-Plain": "a"}}
        amended = await sf.dead_letters.amend(receipt.id, plain, **ASKED)
        assert amended.payload["headers"] == {"X-Plain": "a"}

    async def test_voids_the_approval_of_the_old_payload(self, sf):
        broken(sf, "mail")
        job_id, approval = await held(sf)
        amended = await sf.dead_letters.amend(job_id, {"n": 2}, **ASKED)
        assert (amended.state, triage(amended)[0]) == ("dead", "pending_review")
        assert "its payload was amended" in (await sf.approvals.get(approval)).values()
        with pytest.raises(ApprovalRefused):
            await sf.approvals.approve(approval, by="bea")
        assert (await job_of(sf, job_id)).state == "dead"
        answer = await sf.dead_letters.replay(job_id, by="alex")
        assert answer["outcome"] == "approval_required"
        assert answer["approval"] != approval

    async def test_each_winner_amends_what_it_read(self, sf):
        """Who reads the letter after another's amendment amends that; who read it before is told."""
        broken(sf, "mail")
        job_id = await letter(sf)
        before = (await sf._store.read(reads.job(job_id, sf._store.boot()))).row  # noqa: SLF001
        won, lost = await outcomes([sf.dead_letters.amend(job_id, {"n": n + 2}, **ASKED) for n in range(32)])
        after = await job_of(sf, job_id)
        assert {type(error) for error in lost} == {NotALetter}
        assert after.generation == len(await chained(sf, "amend")) == won
        assert (await sf._store.read(reads.job(job_id, sf._store.boot()))).row.token == before.token + won  # noqa: SLF001

    async def test_of_those_who_read_the_same_one_wins(self, sf):
        broken(sf, "mail")
        row = (await sf._store.read(reads.job(await letter(sf), sf._store.boot()))).row  # noqa: SLF001
        amend = partial(Decision, kind="amend", job=row.id, queue="mail", **ASKED)
        touches = [LetterDecision(standing(row), row.attempts, amend()) for _ in range(32)]
        amendments = [Amendment(touch, f'{{"n":{n}}}', "{}", 1) for n, touch in enumerate(touches)]
        answers = await asyncio.gather(*(store_of(sf).write(scripts.amend, each) for each in amendments))
        assert sum(answers) == 1
        after = await job_of(sf, row.id)
        assert (after.generation, after.payload) == (1, {"n": answers.index(True)})
        assert len(await chained(sf, "amend")) == len(await notices(sf, "amended")) == 1


class TestPurge:
    async def test_deletes_nothing_unless_the_count_is_right(self, sf):
        broken(sf, "mail", "chat")
        ids = [await letter(sf) for _ in range(3)]
        other = await letter(sf, "chat")
        for wrong in (None, 2, 4):
            with pytest.raises(ConfigurationError, match=r"3 letters match.*nothing was deleted: say confirm=3"):
                await sf.dead_letters.purge({"queue": "mail"}, **ASKED, confirm=wrong)
        assert len(await sf.dead_letters.list()) == 4
        assert await sf.audit.entries() == []
        assert await sf.dead_letters.purge({"queue": "mail"}, **ASKED, confirm=3) == {"purged": 3}
        assert [await sf.status(job_id) for job_id in ids] == [None] * 3
        assert [each.id for each in await sf.dead_letters.list()] == [other]
        first, *each = await chained(sf, "purge")
        assert first["detail"] == {"filter": {"queue": "mail"}, "count": 3}
        assert sorted(entry["job"] for entry in each) == sorted(ids)
        assert sorted(await notices(sf, "purged")) == sorted(ids)

    async def test_leaves_nothing_of_a_letter_but_its_key(self, sf):
        broken(sf, "mail")
        receipt = await sf.enqueue("mail", {"n": 1}, idempotency_key="k")
        await drain(sf)
        await sf.dead_letters.purge(**ASKED, confirm=1)
        for table in ("job", "body", "ending", "history"):
            assert behind.rows(sf._store, f"SELECT count(*) FROM {table}") == [(0,)]  # noqa: S608, SLF001
        again = await sf.enqueue("mail", {"n": 1}, idempotency_key="k")
        assert (again.outcome, again.id, again.state) == ("duplicate", receipt.id, None)
        sf.clock.advance("8d")
        assert (await sf.enqueue("mail", {"n": 1}, idempotency_key="k")).outcome == "accepted"

    async def test_takes_discarded_ones_and_leaves_held_and_other_jobs(self, sf):
        failing = broken(sf, "mail")
        discarded = await letter(sf)
        await sf.dead_letters.discard(discarded, **ASKED)
        waits, _ = await held(sf)
        cancelled = await sf.enqueue("mail", {"n": 1}, delay=60)
        await sf.cancel(cancelled.id)
        failing.clear()
        done = await letter(sf)
        with pytest.raises(ConfigurationError, match="1 letter matches"):
            await sf.dead_letters.purge(**ASKED, confirm=2)
        assert await sf.dead_letters.purge({"reason_code": "max_attempts"}, **ASKED, confirm=1) == {"purged": 1}
        assert await sf.status(discarded) is None
        assert [(await job_of(sf, job_id)).state for job_id in (waits, cancelled.id, done)] == [
            "held",
            "cancelled",
            "completed",
        ]

    async def test_to_count_needs_no_reason_and_to_delete_does(self, sf):
        broken(sf, "mail")
        await letter(sf)
        with pytest.raises(ConfigurationError, match="1 letter matches; nothing was deleted"):
            await sf.dead_letters.purge(by="ann")
        with pytest.raises(ConfigurationError, match="reason must be text"):
            await sf.dead_letters.purge(by="ann", confirm=1)
        assert len(await sf.dead_letters.list()) == 1

    async def test_many_go_in_bites(self, sf, monkeypatch):
        monkeypatch.setattr("standfast.wings.letters.disposal.BITE", 2)
        broken(sf, "mail")
        await sf.enqueue_many("mail", [{"n": n} for n in range(5)])
        await drain(sf)
        heard: list[Progress] = []
        purged = await sf.dead_letters.purge(**ASKED, confirm=5, progress=heard.append)
        assert (purged, heard[-1]) == ({"purged": 5}, ("purged", 5, 5))
        assert len(heard) == 3
        assert len(await chained(sf, "purge")) == 6

    async def test_a_wrong_filter_is_refused(self, sf):
        with pytest.raises(ConfigurationError, match="unknown filter"):
            await sf.dead_letters.purge({"que": "mail"}, **ASKED, confirm=0)
        assert await sf.dead_letters.purge({"queue": "none"}, **ASKED, confirm=0) == {"purged": 0}


@pytest.mark.parametrize("wrong", [{"a": 1}, 7, "text", None])
async def test_a_collected_letter_keeps_a_list_when_it_is_amended(sf, wrong):
    @sf.handler("mail")
    async def mail(_job):
        raise Permanent("never")

    sf.queue("mail", coalesce="collect")
    first = await sf.enqueue("mail", 1, thread_key="t")
    await sf.enqueue("mail", 2, thread_key="t")
    await drain(sf)
    with pytest.raises(PayloadRejected, match=r"its payload is a list of payloads.*nothing was written"):
        await sf.dead_letters.amend(first.id, wrong, **ASKED)
    assert (await job_of(sf, first.id)).payload == [1, 2]
    await sf.dead_letters.amend(first.id, [1, 3], **ASKED)
    assert (await job_of(sf, first.id)).payload == [1, 3]
