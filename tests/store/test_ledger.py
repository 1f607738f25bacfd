"""The ledger: an intent before, a receipt after, one row; refused for whoever lost the job, but never forgotten."""

from __future__ import annotations

import msgspec
import pytest

from standfast.failure import Verdict
from standfast.failure.classify import of_result
from standfast.job import ASKED, DOUBTED, Claim, LedgerEntry, LedgerNote
from standfast.lifecycle import Transition
from standfast.outcome import Lapsed, Look, Recovered, Succeeded, Undetermined
from standfast.rules import QueueRules, no_backoff
from standfast.spine.apply import apply
from standfast.wings.audit.words import Decision
from standfast.wings.effects import scripts as ledger
from standfast.wings.records import reads
from standfast.wings.replays.returning import standing
from standfast.wings.replays.rules import replay, resolve
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.store.suite import beat, claim_one, ended, everything, one, replayed, seen, sweep, swept
from tests.waiting import effects_of

AT_ONCE = QueueRules(backoff=no_backoff())
LEDGER = "SELECT name, state, receipt, verdict, token, late FROM effect ORDER BY name"


def note(
    claim: Claim, state: str, receipt: str | None = None, name: str = "ticket", verdict: str | None = None
) -> LedgerNote:
    return LedgerNote(claim.n, claim.token, claim.id, name, state, receipt, verdict)  # type: ignore[arg-type]


async def written(store, *given, **named):
    [answer] = await store.write_all(ledger.for_note(note(*given, **named)), [note(*given, **named)])
    return answer


async def taken_over(store) -> tuple[Claim, Claim]:
    """Give a claim that was lost, and the one that took its place."""
    first = await claim_one(store, worker="slow")
    await ended(store, first, Lapsed(), AT_ONCE)
    return first, await claim_one(store, worker="quick")


async def test_an_intent_and_a_receipt_are_one_row(store, look):
    await one(store)
    claim = await claim_one(store)
    assert await written(store, claim, "begun") == LedgerEntry("ticket", "begun")
    assert look(LEDGER) == [("ticket", "begun", None, None, 1, 0)]
    assert await written(store, claim, "done", '{"id":7}') == LedgerEntry("ticket", "done", '{"id":7}')
    assert look(LEDGER) == [("ticket", "done", '{"id":7}', None, 1, 0)]


async def test_notes_from_code_without_a_loop_do_the_same(store, look):
    await one(store)
    claim = await claim_one(store)
    assert store.write_all(ledger.for_note(note(claim, "begun")), [note(claim, "begun")]).result() == [
        LedgerEntry("ticket", "begun")
    ]
    assert store.write_all(ledger.for_note(note(claim, "done", "1")), [note(claim, "done", "1")]).result() == [
        LedgerEntry("ticket", "done", "1")
    ]
    assert look(LEDGER) == [("ticket", "done", "1", None, 1, 0)]


async def test_a_job_without_effects_has_no_rows(store, look):
    job_id = await one(store)
    claim = await claim_one(store)
    assert claim.ledger is None
    await ended(store, claim, Succeeded())
    assert (look(LEDGER), (await seen(store, job_id)).effects) == ([], [])


async def test_the_next_attempt_gets_what_the_last_one_left(store):
    job_id = await one(store)
    first = await claim_one(store)
    await written(store, first, "begun", name="mail")
    await written(store, first, "begun")
    await written(store, first, "done", "7")
    await ended(store, first, Lapsed(), AT_ONCE)
    second = await claim_one(store)
    assert sorted(second.ledger or [], key=lambda entry: entry.name) == [
        LedgerEntry("mail", "begun"),
        LedgerEntry("ticket", "done", "7"),
    ]
    assert effects_of(await seen(store, job_id)) == [
        {"name": "mail", "verdict": "indeterminate", "receipt": None},
        {"name": "ticket", "verdict": "verified", "receipt": 7},
    ]


async def test_a_sweeper_gets_the_ledger_of_a_first_attempt(store, clock):
    job_id = await one(store, lease=20.0)
    beat(store)
    claim = await claim_one(store)
    await written(store, claim, "begun")
    await written(store, claim, "done", "7")
    for _ in range(5):
        clock.advance(10)
        found = await sweep(store)
    assert [lapsed.ledger for lapsed in found.lapsed] == [[LedgerEntry("ticket", "done", "7")]]
    await swept(store)
    assert (await seen(store, job_id)).history[-1].landed == "no"


async def test_what_came_to_nothing_leaves_no_row(store, look):
    await one(store)
    claim = await claim_one(store)
    await written(store, claim, "begun")
    assert await written(store, claim, "none") is None
    assert look(LEDGER) == []


async def test_nobody_takes_back_what_another_began_or_did(store, look):
    await one(store)
    first, second = await taken_over(store)
    await written(store, second, "begun")
    await written(store, first, "none")
    assert look(LEDGER) == [("ticket", "begun", None, None, 2, 0)]
    await written(store, second, "done", "7")
    await written(store, second, "none")
    assert look(LEDGER) == [("ticket", "done", "7", None, 2, 0)]


async def test_the_intent_of_a_worker_that_lost_its_job_is_refused(store, look):
    await one(store)
    first, second = await taken_over(store)
    assert await written(store, first, "begun") is None
    assert look(LEDGER) == []
    assert await written(store, second, "begun") == LedgerEntry("ticket", "begun")


async def test_an_intent_is_refused_between_two_attempts_too(store, look):
    await one(store)
    claim = await claim_one(store)
    await ended(store, claim, Lapsed(), QueueRules())
    assert await written(store, claim, "begun") is None
    assert look(LEDGER) == []


async def test_a_late_receipt_is_kept_and_marked(store, look):
    job_id = await one(store)
    first = await claim_one(store)
    await written(store, first, "begun")
    await ended(store, first, Lapsed(), AT_ONCE)
    assert await written(store, first, "done", "7") == LedgerEntry("ticket", "done", "7", None, 1)
    assert look(LEDGER) == [("ticket", "done", "7", None, 1, 1)]
    assert effects_of(await seen(store, job_id)) == [
        {"name": "ticket", "verdict": "verified", "receipt": 7, "late": True}
    ]


async def test_a_late_receipt_that_came_after_the_claim_is_found_before_the_effect_is_repeated(store):
    """The second worker saw only an intent; when it asks to begin, the effect is done."""
    await one(store)
    first = await claim_one(store)
    await written(store, first, "begun")
    await ended(store, first, Lapsed(), AT_ONCE)
    second = await claim_one(store)
    assert second.ledger == [LedgerEntry("ticket", "begun")]
    await written(store, first, "done", "7")
    assert await written(store, second, "begun") == LedgerEntry("ticket", "done", "7", None, 1)


async def test_a_late_receipt_does_not_take_the_place_of_a_newer_one(store, look):
    await one(store)
    first, second = await taken_over(store)
    await written(store, second, "begun")
    await written(store, second, "done", "2")
    assert await written(store, first, "done", "1") == LedgerEntry("ticket", "done", "2")
    assert look(LEDGER) == [("ticket", "done", "2", None, 2, 0)]


async def test_a_late_receipt_without_a_place_is_kept_in_history(store):
    """What it names exists, and somebody may have to take it back. The same said twice is not another one."""
    job_id = await one(store)
    first, second = await taken_over(store)
    await written(store, second, "begun")
    await written(store, second, "done", "2")
    await written(store, second, "done", "2")
    await ended(store, second, Succeeded())
    await written(store, second, "done", "2")
    await written(store, first, "done", "1")
    job = await seen(store, job_id)
    assert (job.state, [line.reason_code for line in job.history]) == ("completed", ["worker_lost", "late_receipt"])
    assert "effect 'ticket' was done with the receipt 1;" in (job.history[-1].message or "")
    assert (job.failure, job.effects[0]["receipt"]) == (None, 2)


@pytest.mark.parametrize("by_a_block", [True, False])
async def test_a_late_receipt_comes_beside_what_a_look_found(store, look, by_a_block):
    job_id = await one(store)
    first = await claim_one(store)
    await written(store, first, "begun")
    await ended(store, first, Lapsed(), AT_ONCE)
    second = await claim_one(store)
    if by_a_block:
        await written(store, second, "done", verdict="verified")
    await ended(store, second, Recovered((Look("ticket", Verdict.VERIFIED),)))
    assert await written(store, first, "done", "7") == LedgerEntry("ticket", "done", "7", "verified", 1)
    assert look(LEDGER) == [("ticket", "done", "7", "verified", 1, 1)]
    assert [line.reason_code for line in (await seen(store, job_id)).history] == ["worker_lost"]


UNVERIFIED = of_result({"verified": False})


async def test_a_doubted_receipt_is_open_again_together_with_the_failure(store, look):
    await one(store)
    first = await claim_one(store)
    await written(store, first, "begun")
    await written(store, first, "done", "7")
    stands = msgspec.structs.replace(first, ledger=[LedgerEntry("ticket", "done", "7")])
    assert UNVERIFIED is not None
    assert await ended(store, stands, UNVERIFIED, AT_ONCE)
    assert look(LEDGER) == [("ticket", "begun", "7", DOUBTED, 1, 0)]
    assert await ended(store, stands, UNVERIFIED, AT_ONCE)  # the same end, after an unknown commit
    second = await claim_one(store)
    assert (second.ledger, second.landed) == ([LedgerEntry("ticket", "begun", "7", DOUBTED)], "maybe")
    await written(store, second, "begun")
    await written(store, second, "done", "8")
    assert not await ended(store, stands, UNVERIFIED, AT_ONCE)
    assert look(LEDGER) == [("ticket", "done", "8", None, 2, 0)]


async def test_the_present_worker_s_receipt_takes_the_place_of_a_late_one(store, look):
    await one(store)
    first, second = await taken_over(store)
    await written(store, second, "begun")
    await written(store, first, "done", "1")
    await written(store, second, "done", "2")
    assert look(LEDGER) == [("ticket", "done", "2", None, 2, 0)]
    last = (await seen(store, second.id)).history[-1]
    assert (last.reason_code, "with the receipt 1; a newer" in (last.message or "")) == ("late_receipt", True)


async def test_late_receipts_of_two_effects_in_one_round_are_two_lines(store):
    job_id = await one(store)
    first, second = await taken_over(store)
    for name in ("ticket", "mail"):
        await written(store, second, "done", "2", name=name)
    notes = [note(first, "done", "1", name=name) for name in ("ticket", "mail")]
    engine = store._engine  # noqa: SLF001 - which callers share a round is chance otherwise
    await engine.call(ledger.write, notes, seconds=5)
    told = [line.reason_code for line in (await seen(store, job_id)).history]
    assert told == ["worker_lost", "late_receipt", "late_receipt"]


async def test_the_same_receipt_twice_is_one_thing(store):
    """A receiver that knows the key answers both workers with what it has."""
    job_id = await one(store)
    first, second = await taken_over(store)
    await written(store, second, "begun")
    await written(store, second, "done", "1")
    await written(store, first, "done", "1")
    assert [line.reason_code for line in (await seen(store, job_id)).history] == ["worker_lost"]


async def test_a_receipt_that_its_own_handler_replaces_is_kept_in_history(store):
    job_id = await one(store)
    first = await claim_one(store)
    await written(store, first, "begun")
    await written(store, first, "done", "1")
    await ended(store, first, Lapsed(), AT_ONCE)
    await written(store, await claim_one(store), "done", "2")
    assert [line.reason_code for line in (await seen(store, job_id)).history] == ["worker_lost", "replaced_receipt"]


async def test_two_workers_in_one_round_are_taken_one_after_the_other(store, look):
    await one(store)
    first, second = await taken_over(store)
    await written(store, second, "begun")
    notes = [note(first, "done", "1"), note(second, "done", "2"), note(second, "begun", name="mail")]
    engine = store._engine  # noqa: SLF001 - which callers share a round is chance otherwise
    assert await engine.call(ledger.write, notes, seconds=5) == [
        LedgerEntry("ticket", "done", "1", None, 1),
        LedgerEntry("ticket", "done", "2"),
        LedgerEntry("mail", "begun"),
    ]
    await written(store, second, "none", name="mail")
    assert look(LEDGER) == [("ticket", "done", "2", None, 2, 0)]


async def test_a_job_that_is_gone_takes_no_notes(store, look):
    await one(store)
    claim = await claim_one(store)
    stranger = LedgerNote(claim.n, claim.token, "another-id", "ticket", "done", "1")
    assert await store.write_all(ledger.for_note(stranger), [stranger]) == [None]
    assert await store.write_all(
        ledger.for_note(LedgerNote(9999, 1, "gone", "ticket", "begun")),
        [LedgerNote(9999, 1, "gone", "ticket", "begun")],
    ) == [None]
    assert look(LEDGER) == []


async def test_what_a_look_found_done_closes_its_intent_and_keeps_a_receipt(store, look):
    job_id = await one(store)
    first = await claim_one(store)
    await written(store, first, "begun")
    await written(store, first, "begun", name="mail")
    await written(store, first, "done", "7", name="mail")
    await ended(store, first, Lapsed(), AT_ONCE)
    looks = tuple(Look(name, Verdict.VERIFIED) for name in ("ticket", "mail", "file"))
    assert await ended(store, await claim_one(store), Recovered(looks))
    job = await seen(store, job_id)
    assert (job.state, job.warning, job.attempts) == ("completed", "post_write_recovery", 1)
    assert effects_of(job) == [
        {"name": "file", "verdict": "verified", "receipt": None},
        {"name": "mail", "verdict": "verified", "receipt": 7},
        {"name": "ticket", "verdict": "verified", "receipt": None},
    ]
    assert [row[1] for row in look(LEDGER)] == ["seen", "done", "done"]


async def test_a_note_that_a_look_found_it_keeps_a_receipt_that_came_meanwhile(store, look):
    await one(store)
    first = await claim_one(store)
    await written(store, first, "begun")
    await ended(store, first, Lapsed(), AT_ONCE)
    second = await claim_one(store)
    await written(store, first, "done", "7")
    assert await written(store, second, "done", verdict="verified") == LedgerEntry("ticket", "done", "7", None, 1)
    assert look(LEDGER) == [("ticket", "done", "7", None, 1, 1)]


async def test_what_cannot_be_told_is_held_and_a_person_s_replay_lets_it_be_done_again(store):
    job_id = await one(store)
    first = await claim_one(store)
    await written(store, first, "begun")
    await ended(store, first, Lapsed(), AT_ONCE)
    held = Undetermined((Look("ticket", Verdict.INDETERMINATE),), "nobody knows")
    assert await ended(store, await claim_one(store), held)
    job = await seen(store, job_id)
    assert (job.state, job.reason, job.settled) == ("held", "unknown_commit_state", True)
    assert effects_of(job) == [{"name": "ticket", "verdict": "indeterminate", "receipt": None}]
    await replayed(store, job_id)
    assert (await claim_one(store)).ledger == [LedgerEntry("ticket", "begun", None, "indeterminate")]


@pytest.mark.parametrize(
    ("by", "kind", "verdict"), [("ann", "replay", ASKED), (None, "replay", None), ("policy", "auto_replay", None)]
)
async def test_only_a_person_s_replay_gives_leave_to_do_it_again(store, by, kind, verdict):
    job_id = await one(store)
    first = await claim_one(store)
    await written(store, first, "begun")
    await ended(store, first, Undetermined((), "nobody knows"))
    record = await store.read(reads.job(job_id, store.boot()))
    move = replay(standing(record.row), by=by)
    assert isinstance(move, Transition)
    assert await store.write_all(apply, [move.carrying(Decision(kind=kind))]) == [True]
    assert (await claim_one(store)).ledger == [LedgerEntry("ticket", "begun", None, verdict)]


async def test_a_resolved_letter_keeps_who_said_so_and_why(store):
    job_id = await one(store)
    await ended(store, await claim_one(store), Undetermined((), "nobody knows"))
    record = await store.read(reads.job(job_id, store.boot()))
    triage = (await seen(store, job_id)).triage
    move = resolve(standing(record.row), by="ann", reason="I saw it", triage=triage, result='{"id":7}')
    assert isinstance(move, Transition)
    assert await store.write_all(apply, [move, move]) == [True, True]
    job = await seen(store, job_id)
    assert (job.state, job.result, job.failure) == ("completed", {"id": 7}, None)
    assert job.triage is not None
    assert job.triage.replay_status == "resolved"
    assert [(line.reason_code, line.by, line.reason) for line in job.history][1:] == [("resolved", "ann", "I saw it")]


async def test_effects_go_with_their_job(store, look, clock):
    await one(store)
    claim = await claim_one(store)
    await written(store, claim, "begun")
    await written(store, claim, "done", "7")
    await ended(store, claim, Succeeded())
    clock.advance(400 * 86400)
    await store.write(upkeep.prune, PruneRequest())
    assert everything(look, "effect", "job") == [[], []]
