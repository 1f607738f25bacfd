"""The spool's file, and how what it took comes into the store: once, in order, as of the time it was accepted."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from standfast.application.wings import store_at
from standfast.concurrency.flows import run_sync
from standfast.errors import ConfigurationError, StoreUnavailable
from standfast.job import NewJob
from standfast.outcome import Succeeded
from standfast.rules import QueueRules
from standfast.settings import load
from standfast.spine import intake
from standfast.spine.registry import Registry
from standfast.store import spool as spool_module
from standfast.store import spoolfile, spools
from standfast.store.spool import Spool, Stamp
from standfast.store.sqlite import handle
from standfast.store.store import Store
from standfast.wings.letters.dead_jobs import in_conflict, unknown
from standfast.wings.queues.declarations import Declarations
from standfast.wings.records import reads
from standfast.wings.relay import relay
from standfast.wings.relay import scripts as forward
from standfast.wings.relay.forwarder import Forwarder
from standfast.wings.relay.relay import hand_over
from standfast.wings.relay.scripts import Forward, Unforwardable
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.store.suite import claim_one, claimed, ended, enqueued, new_job, publish, replayed, seen, states

NOW = Stamp("boot-1", 1000.0, 2000.0)
FOLDS: dict[str, Any] = {"thread_key": "t", "details": '{"coalesce":"latest"}'}
"""A job whose caller asks for it to be folded into a waiting one."""


@pytest.fixture
def url(postgres_url: str) -> str:
    """Name a server: only there is something to bring."""
    return postgres_url


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "jobs.spool"


@pytest.fixture
def spool(path: Path) -> Iterator[Spool]:
    held = spools.spool_at(path, "a server")
    yield held
    held.close()


def ids(spool: Spool) -> list[str]:
    return [entry.job.id for entry in spool.oldest(100)]


# --- the file


def test_what_was_put_is_read_in_order_by_whoever_comes_next(spool, path):
    jobs = [new_job(payload=f'"{number}"', priority=number) for number in range(3)]
    for job in jobs:
        spool.put([job], NOW, "away")
    spool.close()
    again = Spool(path, "a server")
    found = again.oldest(100)
    assert [entry.job for entry in found] == jobs
    assert {(entry.accepted, entry.reason, entry.tries) for entry in found} == {(NOW, "away", 0)}
    again.close()


def test_looking_makes_no_file(spool, path):
    assert not spool.look()
    assert spool.waiting is False
    assert (spool.depth(), spool.find("job"), path.exists()) == (0, None, False)


def test_the_file_is_its_owners_and_syncs_every_commit(spool, path):
    spool.put([new_job()], NOW, "away")
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)]
    assert modes == [0o600, 0o700]
    asked = spool._use(lambda held: (held.pragma("journal_mode"), held.pragma("synchronous")))  # noqa: SLF001
    assert asked == ("wal", 3)


def test_what_was_handed_in_together_is_read_together_and_an_id_only_once(spool):
    first, *rest = [new_job() for _ in range(5)]
    spool.put([first], NOW, "away")
    spool.put(rest, NOW, "away")
    spool.put([first], NOW, "again")
    assert [len(spool.oldest(most)) for most in (1, 2, 3, 5)] == [1, 5, 5, 5]
    assert spool.depth() == 5


def test_all_of_a_batch_or_none_is_written(spool, monkeypatch):
    spool.put([new_job()], NOW, "away")
    encoded = iter([b"{}", b"{}"])
    monkeypatch.setattr(spool_module, "_encode", lambda _job: next(encoded, None) or _fail())
    with pytest.raises(StoreUnavailable) as raised:
        spool.put([new_job() for _ in range(5)], NOW, "away")
    assert (raised.value.definite, spool.depth()) == (True, 1)


def _fail() -> bytes:
    raise apsw.IOError("the disk is broken")


def test_callers_who_come_at_once_share_commits_and_all_are_kept(spool):
    jobs = [new_job() for _ in range(200)]
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda job: spool.put([job], NOW, "away"), jobs))
    assert sorted(ids_of(spool)) == sorted(job.id for job in jobs)


def ids_of(spool: Spool) -> list[str]:
    return [entry.job.id for entry in spool.oldest(1000)]


def test_waiting_is_known_before_the_caller_is_answered_and_ends_with_the_last_entry(spool):
    known = [spool.waiting]
    spool.put([new_job()], NOW, "away")
    known.append(spool.waiting)
    spool.delete(spool.oldest(10))
    known.append(spool.look())
    assert [*known, spool.waiting] == [None, True, False, False]


def test_a_file_that_is_no_spool_is_refused_and_left_alone(path, spool):
    path.parent.mkdir()
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE theirs (a)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match="not a spool of this version") as raised:
        spool.put([new_job()], NOW, "away")
    assert raised.value.definite
    assert path.read_bytes() == before


def test_jobs_for_one_server_are_not_brought_to_another(spool, path):
    spool.put([new_job()], NOW, "away")
    spool.close()
    other = Spool(path, "another server")
    with pytest.raises(StoreUnavailable, match="holds jobs for a server, not for another server"):
        other.put([new_job()], NOW, "away")
    assert (other.oldest(10), bool(other.trouble)) == ([], True)
    spool.delete(spool.oldest(10))
    spool.close()
    other.put([new_job()], NOW, "away")  # an empty one may change hands
    other.close()


def test_two_objects_of_a_process_share_the_spool_of_their_store(path, spool):
    assert spools.spool_at(path.parent / "." / path.name, "a server") is spool
    with pytest.raises(ConfigurationError, match="its own spool"):
        spools.spool_at(path, "another server")


def test_a_low_disk_is_a_definite_refusal(spool, path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1 << 20))
    with pytest.raises(StoreUnavailable, match="disk is low") as raised:
        spool.put([new_job()], NOW, "away")
    assert (raised.value.definite, path.exists()) == (True, False)


def test_a_network_file_system_is_refused(spool, monkeypatch):
    def refuse(_path: Path) -> str:
        raise ConfigurationError("on a network file system (nfs)")

    monkeypatch.setattr(spoolfile, "check_file_system", refuse)
    with pytest.raises(StoreUnavailable, match="nfs"):
        spool.put([new_job()], NOW, "away")


class Failing:
    """A handle whose COMMIT raises so many times, before or after it has landed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int, *, landed: bool) -> None:
        self.left = times
        real = handle.connect

        def connect(location: str) -> Any:
            return Handle(real(location), self, landed=landed)

        monkeypatch.setattr(spoolfile, "connect", connect)


class Handle:
    def __init__(self, real: Any, failing: Failing, *, landed: bool) -> None:
        self._real, self._failing, self._landed, self._laid_out = real, failing, landed, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, sql: str, *given: Any) -> Any:
        if sql != "COMMIT":
            return self._real.execute(sql, *given)
        if self._laid_out and self._failing.left:
            self._failing.left -= 1
            if self._landed:
                self._real.execute(sql)
            raise apsw.IOError("the answer is unknown")
        self._laid_out = True
        return self._real.execute(sql)


@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_whose_answer_is_unknown_is_tried_again_and_written_once(spool, monkeypatch, landed):
    Failing(monkeypatch, 1, landed=landed)
    job = new_job()
    spool.put([job], NOW, "away")
    assert ids(spool) == [job.id]


def test_what_may_have_been_written_is_not_called_definite(spool, monkeypatch):
    Failing(monkeypatch, 2, landed=True)
    with pytest.raises(StoreUnavailable) as raised:
        spool.put([new_job()], NOW, "away")
    assert not raised.value.definite


def test_a_forked_child_has_its_own_handle(spool):
    first, childs, last = [new_job() for _ in range(3)]
    spool.put([first], NOW, "away")
    child = os.fork()
    if not child:
        code = 1
        try:
            inherited = [link.name for link in Path("/proc/self/fd").iterdir() if link.resolve() == spool.path]
            spool.put([childs], NOW, "away")
            code = 0 if spool.depth() == 2 and not inherited else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    spool.put([last], NOW, "away")
    assert ids(spool) == [first.id, childs.id, last.id]


# --- into the store


def brought(store: Store, *jobs: NewJob, ago: float = 0.0) -> None:
    """Bring jobs that were accepted on some host so many seconds ago."""
    run_sync(hand_over(store, forward.forward, [Forward(job, store.now() - ago, in_conflict) for job in jobs]))


async def test_a_job_is_brought_once_however_often_and_however_late(store, clock, look):
    publish(store, mail=QueueRules(keep_completed=1))
    plain, threaded = new_job(), new_job(thread_key="t")
    for _ in range(2):
        brought(store, plain, threaded)
    assert [job[0] for job in look("SELECT state FROM job")] == ["queued", "queued"]
    for claim in await claimed(store, slots=2):
        await ended(store, claim, Succeeded(None))
    clock.advance(60)
    await store.write(upkeep.prune, PruneRequest())
    brought(store, plain, threaded)  # the producer died before it could forget them
    assert look("SELECT count(*) FROM job") == [(0,)]
    assert await claimed(store, slots=2) == []


async def test_what_its_own_producer_stored_unanswered_is_not_stored_again(store, look):
    plain, keyed, threaded = new_job(), new_job(idempotency_key="k"), new_job(thread_key="t")
    await enqueued(store, plain, keyed, threaded)
    brought(store, plain, keyed, threaded, ago=3)
    assert look("SELECT count(*) FROM job") == [(3,)]
    assert await states(store, plain.id, keyed.id, threaded.id) == ["queued"] * 3


async def test_what_may_have_run_and_been_pruned_is_not_run_blindly(store, clock):
    publish(store, mail=QueueRules(keep_completed=60))
    gone, waiting, keyed, never = new_job(), new_job(), new_job(idempotency_key="k"), new_job()
    await enqueued(store, gone, keyed)
    for claim in await claimed(store, slots=2):
        await ended(store, claim, Succeeded(None))
    clock.advance(120)
    await enqueued(store, waiting)
    await store.write(upkeep.prune, PruneRequest())
    for _ in range(2):
        again = [Forward(job, store.now() - 120, in_conflict, unknown) for job in (gone, waiting, keyed)]
        store.write_all(forward.forward, again).result()
    brought(store, never, ago=120)  # for certain it was not here
    found = [await seen(store, job.id) for job in (gone, waiting, never)]
    assert [(job.state, job.reason) for job in found] == [("dead", "unknown_commit_state"), *[("queued", None)] * 2]
    assert await store.read(reads.job(keyed.id, store.boot())) is None, "its key tells that it ran"
    assert {claim.id for claim in await claimed(store, slots=5)} == {waiting.id, never.id}


async def test_what_was_folded_unanswered_is_known_after_its_carrier_ran(store, look):
    [carrier] = await enqueued(store, new_job(**FOLDS))
    folded = new_job(payload="2", **FOLDS)
    await store.write_all(intake.enqueue, [folded])  # nobody was told
    await ended(store, await claim_one(store), Succeeded(None))
    brought(store, folded, ago=1)
    assert look("SELECT count(*) FROM job") == [(1,)]
    assert (await seen(store, folded.id)).id == carrier


async def test_a_duplicate_answers_with_its_owner(store):
    [owner] = await enqueued(store, new_job(payload="1", idempotency_key="k"))
    late = new_job(payload="1", idempotency_key="k")
    brought(store, late)
    assert (await seen(store, late.id)).id == owner


async def test_a_folded_job_answers_with_its_carrier(store):
    [carrier] = await enqueued(store, new_job(payload="1", **FOLDS))
    late = new_job(payload="2", **FOLDS)
    brought(store, late)
    found = await seen(store, late.id)
    assert (found.id, found.payload) == (carrier, 2)


async def test_an_alias_is_kept_as_long_as_its_owner_and_not_for_ever(store, clock, look):
    publish(store, mail=QueueRules(keep_completed=90 * 86400, keep_keys=1))
    [owner] = await enqueued(store, new_job(payload="1", idempotency_key="k"))
    brought(store, late := new_job(payload="1", idempotency_key="k"))
    await ended(store, await claim_one(store), Succeeded(None))
    clock.advance(60 * 86400)
    await store.write(upkeep.prune, PruneRequest())
    assert (await seen(store, late.id)).id == owner
    clock.advance(31 * 86400)
    await store.write(upkeep.prune, PruneRequest())
    await store.write(upkeep.prune, PruneRequest())
    assert look("SELECT count(*) FROM alias") == [(0,)]


async def test_a_conflict_becomes_a_letter_and_stays_one(store):
    [owner] = await enqueued(store, new_job(payload="1", idempotency_key="k"))
    late = new_job(payload="2", idempotency_key="k")
    brought(store, late)
    found = await seen(store, late.id)
    assert (found.id, found.state, found.reason, found.payload) == (late.id, "dead", "idempotency_conflict", 2)
    assert found.triage is not None
    assert (found.triage.rule, found.policy_snapshot) == ("built-in", "built-in")
    assert found.fingerprint is not None
    assert found.failure is not None
    assert owner in found.failure.message


async def test_a_letter_that_was_replayed_does_not_die_again_when_it_is_brought_again(store):
    await enqueued(store, new_job(payload="1", idempotency_key="k"))
    late = new_job(payload="2", idempotency_key="k")
    brought(store, late)
    await replayed(store, late.id)
    brought(store, late)
    assert await states(store, late.id) == ["queued"]


async def test_an_older_job_does_not_overwrite_a_newer_one(store):
    [newer] = await enqueued(store, new_job(payload="2", idempotency_key="new", **FOLDS))
    older = new_job(payload="1", idempotency_key="old", priority=7, **FOLDS)
    brought(store, older, ago=10)
    found = await seen(store, older.id)
    assert (found.id, found.payload, found.idempotency_key, found.priority) == (newer, 2, "new", 7)
    assert found.coalesced is not None
    assert found.coalesced["count"] == 1
    assert (found.created_at - found.first_seen_at).total_seconds() == 10
    again = new_job(payload="1", idempotency_key="old", **FOLDS)
    [answer] = await store.write_all(intake.enqueue, [again])
    assert (answer.id, answer.outcome) == (newer, "duplicate")


async def test_an_older_job_makes_the_newer_one_due_when_it_was(store):
    [newer] = await enqueued(store, new_job(payload="2", delay=3600, **FOLDS))
    brought(store, new_job(payload="1", **FOLDS), ago=10)
    assert (await claim_one(store)).id == newer


async def test_a_newer_job_replaces_what_was_accepted_before_it(store, clock):
    [older] = await enqueued(store, new_job(payload="1", **FOLDS))
    clock.advance(60)
    late = new_job(payload="2", **FOLDS)
    brought(store, late, ago=10)
    assert (await seen(store, older)).payload == 2
    brought(store, new_job(payload="1.5", **FOLDS), ago=30)  # after the first, before what replaced it
    assert (await seen(store, older)).payload == 2


async def test_an_older_job_is_not_run_after_a_newer_one_that_runs(store, look):
    [newer] = await enqueued(store, new_job(payload="2", **FOLDS))
    claim = await claim_one(store)
    older = new_job(payload="1", **FOLDS)
    brought(store, older, ago=10)
    assert (await seen(store, older.id)).id == newer
    await ended(store, claim, Succeeded(None))
    assert look("SELECT state FROM job") == [("completed",)]


async def test_direct_calls_go_by_their_commit_whatever_the_clock(store, clock):
    [first] = await enqueued(store, new_job(payload="1", **FOLDS))
    clock._server -= 60  # noqa: SLF001 - another process has not heard yet what time it is
    store.close()
    store.reopen()
    await store.write_all(intake.enqueue, [new_job(payload="2", **FOLDS)])
    assert (await seen(store, first)).payload == 2


async def test_time_counts_from_acceptance(store):
    delayed, soon, plain = new_job(delay=5), new_job(delay=60), new_job()
    brought(store, delayed, soon, plain, ago=10)
    found = [await seen(store, job.id) for job in (delayed, soon, plain)]
    assert [round((job.due_at - job.created_at).total_seconds()) for job in found] == [5, 60, 0]
    assert (store.now() - found[2].created_at.timestamp()) == pytest.approx(10)
    assert {claim.id for claim in await claimed(store, slots=3)} == {delayed.id, plain.id}


async def test_jobs_run_in_the_order_they_came(store):
    ages = [30.0, 20.0, 20.0, 19.95, 5.0, 0.0]
    jobs = [new_job(thread_key=f"t{number}" if number % 2 else None) for number in range(len(ages))]
    moments = [Forward(job, store.now() - age, in_conflict) for job, age in zip(jobs, ages, strict=True)]
    store.write_all(forward.forward, moments).result()
    [direct] = await enqueued(store, new_job())
    assert [(await claim_one(store)).id for _ in range(7)] == [*(job.id for job in jobs), direct]


async def test_a_wall_clock_that_was_set_back_does_not_turn_the_order_round(store, clock, spool):
    jobs = [new_job() for _ in range(3)]
    for job, boot, ago in zip(jobs, ("boot-a", "boot-b", clock.boot()), (10, 60, 0), strict=True):
        spool.put([job], Stamp(boot, clock.elapsed() - ago, clock.wall() - ago), "away")
    Idle(store, spool).bring(spool.oldest(10))
    assert [(await claim_one(store)).id for _ in jobs] == [job.id for job in jobs]
    assert spool.depth() == 0


async def test_what_is_too_much_for_one_transaction_is_brought_in_several(store, spool, monkeypatch):
    monkeypatch.setattr(relay, "MOST_TOGETHER", 3)
    monkeypatch.setattr(relay, "MOST_BYTES", 1000)
    jobs = [new_job(payload='"' + "x" * size + '"') for size in (1, 1, 1, 1, 900, 900, 1)]
    spool.put(jobs, store.moment(), "away")
    cut = [[entry.job.id for entry in part] for part in relay.cut(spool.oldest(1))]
    expected = [jobs[0:3], jobs[3:6], jobs[6:7]]
    assert cut == [[job.id for job in part] for part in expected]
    Idle(store, spool)._empty_spool()  # noqa: SLF001
    assert [(await claim_one(store)).id for _ in jobs] == [job.id for job in jobs]


async def test_what_is_refused_again_becomes_a_letter_with_the_reason(store, spool):
    """The first time it is left alone: another version may take it."""
    good, bad = new_job(), new_job(payload='"x"', priority=2**40, idempotency_key="k", thread_key="t")
    for job in (good, bad):
        spool.put([job], store.moment(), "away")
    bringing = Idle(store, spool)
    bringing.bring(spool.oldest(10))
    [left] = spool.entries(10)
    assert (left.job.id, left.tries, await store.read(reads.job(bad.id, store.boot()))) == (bad.id, 1, None)
    for _ in range(2):  # it may die after the first, before it forgets it
        bringing.bring(spool.refused(10) or [left])
    letter = await seen(store, bad.id)
    assert (letter.state, letter.reason, letter.payload, letter.priority) == ("dead", "parse_error", "x", 0)
    assert letter.failure is not None
    assert "out of range" in letter.failure.message
    assert spool.depth() == 0
    assert [claim.id for claim in await claimed(store, slots=5)] == [good.id]


async def test_what_cannot_even_be_a_letter_stays_in_the_spool(store, spool):
    spool.put([new_job(queue="a\0b")], store.moment(), "away")
    bringing = Idle(store, spool)
    bringing.bring(spool.oldest(10))
    bringing.bring(spool.refused(10))
    assert [entry.tries for entry in spool.entries(10)] == [2]


class Idle(Forwarder):
    """A forwarder without its thread."""

    def _run(self) -> None: ...

    def __init__(self, store: Store, spool: Spool) -> None:
        super().__init__(store, spool, Declarations(store, Registry(), load(":memory:", {})))


async def test_what_was_accepted_enters_a_queue_that_takes_no_more(store):
    publish(store, mail=QueueRules(max_depth=1))
    await enqueued(store, new_job())
    jobs = [new_job(), new_job(thread_key="t"), new_job(idempotency_key="k")]
    brought(store, *jobs)
    assert await states(store, *(job.id for job in jobs)) == ["queued"] * 3


async def test_what_the_store_can_never_take_is_told_apart(store, look):
    with pytest.raises(Unforwardable, match="out of range"):
        brought(store, new_job(priority=2**40))
    assert look("SELECT count(*) FROM job") == [(0,)]


def test_queue_time_is_exact_within_a_boot_and_by_the_wall_clock_after_one(store, clock):
    then, before = store.moment(), store.now()
    clock.jump_wall(-3600)
    clock.advance(10)
    assert store.queue_time(then) == pytest.approx(before)
    clock.jump_wall(3600)
    clock.reboot()
    store.close()
    store.reopen()
    assert store.queue_time(then) == pytest.approx(before)


async def test_a_file_needs_no_spool_and_a_server_has_one_for_each_schema(tmp_path, url, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert store_at(str(tmp_path / "queue.db")).spool() is None
    held = [store_at(each).spool() for each in (url, url + "x", url.replace("postgres@", "postgres:secret@"))]
    paths = [spool.path for spool in held if spool is not None]
    assert paths[0] != paths[1]
    assert paths[0] == paths[2]
    assert all(path.is_relative_to(tmp_path / "standfast") for path in paths)
    named = store_at(url, spool=str(tmp_path / "mine")).spool()
    assert named is not None
    assert named.path == tmp_path / "mine"
