"""`tx=`: a job is enqueued exactly if the caller's own transaction commits, and handed over once whatever happens."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import sys
from pathlib import Path

import pytest

from standfast import ConfigurationError, IdempotencyConflict, PayloadRejected, Receipt, Standfast
from standfast.errors import StoreDamaged, StoreUnavailable, UnknownJob
from standfast.store import store as store_module
from standfast.store.sqlite import handle
from standfast.wings.relay.outbox import Outbox
from tests.waiting import ended, failure_of, job_of, seen
from tests.warm import run_warm
from tests.worker.outage import Outage
from tests.worker.processes import environment

RELAYING = Path(__file__).with_name("relaying.py")


@pytest.fixture
def url(path):
    """Name a file: this is about SQLite."""
    return path


@pytest.fixture
def database(tmp_path):
    """Make a database of a user's own."""
    path = str(tmp_path / "shop.db")
    with sqlite3.connect(path) as shop:
        shop.execute("CREATE TABLE orders (number INTEGER)")
    shop.close()
    return path


@pytest.fixture
def shop(database):
    """Open it as the user does."""
    opened = sqlite3.connect(database)
    yield opened
    opened.close()


@pytest.fixture
async def outbox(disk, database):
    relayed = disk.outbox(lambda: sqlite3.connect(database))
    yield relayed
    await relayed.close()


def relay_and_die(store: str, database: str) -> None:
    command = [sys.executable, str(RELAYING), store, database]
    done = run_warm(command, env=environment(), timeout=30)
    assert done.returncode == -signal.SIGKILL


def waiting(shop: sqlite3.Connection) -> int:
    [(number,)] = shop.execute("SELECT count(*) FROM standfast_outbox")
    return int(number)


async def test_committed_is_relayed_and_runs(disk, shop, database):
    ran: list[int] = []
    disk.handler("mail")(lambda job: ran.append(job.payload))
    async with disk.worker(), disk.outbox(lambda: sqlite3.connect(database), every=0.01):
        shop.execute("INSERT INTO orders VALUES (7)")
        receipt = await disk.enqueue("mail", 7, tx=shop)
        assert receipt == Receipt(receipt.id, "deferred", None)
        assert await disk.status(receipt.id) is None
        shop.commit()
        await seen(lambda: ran)
        await ended(disk, receipt.id)
    assert ran == [7]
    assert waiting(shop) == 0


@pytest.fixture(params=["file", "postgres"])
async def either(request, path):
    """Give a store on each engine."""
    url = path if request.param == "file" else request.getfixturevalue("used_postgres_url")
    async with Standfast(url) as made:
        yield made


async def test_a_deferred_job_is_waited_for_from_its_commit_on(either, shop, database):
    either.handler("mail")(lambda job: job.payload)
    relayed = either.outbox(lambda: sqlite3.connect(database))
    receipt = await either.enqueue("mail", 7, tx=shop)
    with pytest.raises(UnknownJob):
        await either.wait(receipt.id, 5)
    shop.commit()
    found = await job_of(either, receipt.id)
    assert (found.view, found.state, found.payload, found.settled) == ("deferred", "queued", 7, False)
    assert "waits in the outbox of your database" in await either.explain(receipt.id)
    with pytest.raises(TimeoutError, match="is still deferred"):
        await either.wait(receipt.id, 0)
    waited = asyncio.create_task(either.wait(receipt.id, 20))
    async with either.worker():
        assert await relayed.relay() == 1
        assert (await waited).result == 7
    assert (await either.explain(receipt.id)).startswith("It completed")
    await relayed.close()


async def test_a_job_that_the_relay_brings_while_it_is_looked_for_is_found(either, shop, database, monkeypatch):
    relayed = either.outbox(lambda: sqlite3.connect(database))
    receipt = await either.enqueue("mail", 7, tx=shop)
    shop.commit()
    find = relayed.table.find

    async def overtaken(job_id: str) -> object:
        await relayed.relay()
        return await find(job_id)

    monkeypatch.setattr(relayed.table, "find", overtaken)
    assert (await job_of(either, receipt.id)).view == "queued"
    await relayed.close()


async def test_an_outbox_that_cannot_be_read_leaves_open_whether_a_job_exists(disk, tmp_path):
    relayed = disk.outbox(lambda: sqlite3.connect(tmp_path / "not" / "there.db"))
    with pytest.raises(StoreUnavailable, match="the outbox that may have it cannot be read"):
        await disk.wait("no such id", 1)
    await relayed.close()


async def test_rolled_back_is_never_enqueued(disk, shop, outbox):
    shop.execute("INSERT INTO orders VALUES (7)")
    receipt = disk.enqueue_sync("mail", 7, tx=shop)
    shop.rollback()
    assert await outbox.relay() == 0
    assert await disk.status(receipt.id) is None
    assert await disk.jobs() == []


async def test_nothing_of_ours_commits_for_the_caller(disk, shop, database):
    shop.execute("INSERT INTO orders VALUES (7)")
    await disk.enqueue("mail", 7, tx=shop)
    assert shop.in_transaction
    other = sqlite3.connect(database)
    assert other.execute("SELECT * FROM orders").fetchall() == []
    other.close()


async def test_an_outbox_nobody_wrote_to_is_empty(outbox):
    assert await outbox.relay() == 0


@pytest.mark.parametrize("thread", [None, "t"])
async def test_a_crash_between_handing_over_and_deleting_stores_it_once(disk, shop, database, outbox, thread):
    ran: list[int] = []
    disk.queue("mail", coalesce="latest")
    disk.handler("mail")(lambda job: ran.append(job.payload))
    await disk.open()  # its rules are in force before anything is relayed
    ids = [disk.enqueue_sync("mail", number, tx=shop, thread_key=thread).id for number in (1, 2)]
    shop.commit()
    await asyncio.to_thread(relay_and_die, disk.settings.url.value, database)
    assert waiting(shop) == 2
    await disk.worker().run_due()  # what was handed over runs, and ends, before the next relay comes
    assert await outbox.relay() == 2
    await disk.worker().run_due()
    assert ran == ([1, 2] if thread is None else [2])
    assert {job.id for job in await disk.jobs()} == (set(ids) if thread is None else {ids[0]})
    assert waiting(shop) == 0


async def test_order_is_kept(disk, shop, outbox, monkeypatch):
    monkeypatch.setattr("standfast.wings.relay.outbox.ROWS_AT_ONCE", 3)
    for number in range(10):
        disk.enqueue_sync("mail", number, tx=shop)
    shop.commit()
    assert await outbox.relay() == 10
    assert [job.payload for job in reversed(await disk.jobs())] == list(range(10))


async def test_checks_happen_when_the_caller_calls(disk, shop):
    with pytest.raises(PayloadRejected):
        await disk.enqueue("mail", object(), tx=shop)
    with pytest.raises(ConfigurationError, match="idempotency_key"):
        await disk.enqueue("mail", 1, idempotency_key="", tx=shop)
    with pytest.raises(ConfigurationError, match="SQLite database"):
        await disk.enqueue("mail", 1, tx="shop.db")
    with pytest.raises(ConfigurationError, match="needs an idempotency_key"):
        await disk.enqueue_http("mail", "POST", "https://a.example/", thread_key="t", tx=shop)
    assert shop.execute("SELECT name FROM sqlite_master WHERE name = 'standfast_outbox'").fetchall() == []


BORN_DEAD = """
version: v1
dlq_rules:
  - match: {reason_code: idempotency_conflict, labels: {team: red}}
    action: require_approval
    approver_group: governance
  - match: {reason_code: idempotency_conflict}
    action: quarantine
    owner: integration-team
"""


async def test_letters_that_are_born_dead_are_judged_by_the_policy_in_the_same_write(disk, shop, outbox):
    await disk.policy.load(BORN_DEAD)
    await disk.enqueue("mail", 1, idempotency_key="k")
    for payload, labels in ((2, None), (3, {"team": "red"})):
        disk.enqueue_sync("mail", payload, idempotency_key="k", labels=labels, tx=shop)
        shop.commit()
        assert await outbox.relay() == 1
    [held, dead] = await disk.dead_letters.list()
    assert (dead.state, dead.triage.rule, dead.triage.owner) == ("dead", "dlq_rules#2", "integration-team")
    assert (held.state, held.triage.rule) == ("held", "dlq_rules#1")
    [asked] = await disk.approvals.list()
    assert asked["job"] == held.id
    assert dead.policy_snapshot == held.policy_snapshot == disk.policy.snapshot
    [group] = await disk.dead_letters.groups()
    assert (group["fingerprint"], group["count"]) == (dead.fingerprint, 2)


async def test_a_key_is_kept_and_a_conflict_becomes_a_letter(disk, shop, outbox):
    first = await disk.enqueue("mail", 1, idempotency_key="k")
    same = disk.enqueue_sync("mail", 1, idempotency_key="k", tx=shop)
    shop.commit()
    assert await outbox.relay() == 1
    other = disk.enqueue_sync("mail", 2, idempotency_key="k", tx=shop)
    shop.commit()
    assert await outbox.relay() == 1
    assert await disk.status(same.id) is None  # a duplicate of the first
    letter = await job_of(disk, other.id)
    assert (letter.state, letter.payload, failure_of(letter).reason_code) == ("dead", 2, "idempotency_conflict")
    assert str(first.id) in failure_of(letter).message
    assert letter.triage is not None
    assert (await disk.dead_letters.list())[0].id == other.id


async def test_a_key_that_waits_in_the_outbox_answers_there(disk, shop, outbox):
    """Its second id would never become a job: the relay brings the first."""
    first = await disk.enqueue("mail", 1, idempotency_key="k", tx=shop)
    assert await disk.enqueue("mail", 1, idempotency_key="k", tx=shop) == Receipt(first.id, "duplicate", None)
    shop.commit()
    assert disk.enqueue_sync("mail", 1, idempotency_key="k", tx=shop) == Receipt(first.id, "duplicate", None)
    with pytest.raises(IdempotencyConflict, match="nothing was written") as caught:
        await disk.enqueue("mail", 2, idempotency_key="k", tx=shop)
    assert caught.value.job_id == first.id
    elsewhere = await disk.enqueue("chat", 2, idempotency_key="k", tx=shop)
    shop.commit()
    assert await outbox.relay() == 2
    assert {job.id for job in await disk.jobs()} == {first.id, elsewhere.id}


async def test_a_key_that_was_rolled_back_is_free(disk, shop, outbox):
    await disk.enqueue("mail", 1, idempotency_key="k", tx=shop)
    shop.rollback()
    again = await disk.enqueue("mail", 2, idempotency_key="k", tx=shop)
    shop.commit()
    assert (again.outcome, await outbox.relay()) == ("deferred", 1)
    assert (await job_of(disk, again.id)).payload == 2


@pytest.mark.parametrize("connect", ["app.sqlite", None, Path("app.sqlite"), "a connection"])
async def test_what_cannot_open_the_database_is_refused_at_once(disk, shop, connect):
    """A connection can be called, and would answer with no connection."""
    with pytest.raises(ConfigurationError, match="connect must be a function that opens your database"):
        disk.outbox(shop if connect == "a connection" else connect)


async def test_a_delay_counts_from_the_call(sf, shop, database):
    receipt = sf.enqueue_sync("mail", delay=60, tx=shop)
    shop.commit()
    called = sf.clock.wall()
    sf.clock.advance(45)
    relayed = sf.outbox(lambda: sqlite3.connect(database))
    assert await relayed.relay() == 1
    await relayed.close()
    assert (await job_of(sf, receipt.id)).due_at.timestamp() == pytest.approx(called + 60, abs=0.01)


@pytest.mark.parametrize("engine", ["file", "postgres"])
async def test_a_job_the_store_can_never_take_holds_up_no_other(request, engine, path, shop, database):
    url = path if engine == "file" else request.getfixturevalue("used_postgres_url")
    async with Standfast(url) as disk:
        await _never_taken(disk, shop, disk.outbox(lambda: sqlite3.connect(database)))


async def _never_taken(disk: Standfast, shop: sqlite3.Connection, outbox: Outbox) -> None:
    ids = [disk.enqueue_sync("mail", number, tx=shop).id for number in range(3)]
    [(row,)] = shop.execute("SELECT job FROM standfast_outbox WHERE id = ?", (ids[1],))
    wrong = json.dumps({**json.loads(row), "priority": 10**21})
    shop.execute("UPDATE standfast_outbox SET job = ? WHERE id = ?", (wrong, ids[1]))
    shop.commit()
    assert (await outbox.relay(), await outbox.relay()) == (2, 1), "the first time it is left alone"
    assert [(await job_of(disk, each)).state for each in ids] == ["queued", "dead", "queued"]
    letter = await job_of(disk, ids[1])
    assert letter.failure is not None
    assert (letter.reason, "cannot take it" in letter.failure.message, waiting(shop)) == ("parse_error", True, 0)
    await outbox.close()


async def test_a_full_queue_keeps_its_jobs_waiting_in_order_and_lets_others_pass(disk, shop, outbox, monkeypatch):
    monkeypatch.setattr("standfast.wings.relay.outbox.ROWS_AT_ONCE", 2)
    disk.queue("mail", max_depth=1)
    disk.handler("mail")(lambda _job: None)
    for queue in ("mail", "mail", "post", "mail"):
        disk.enqueue_sync(queue, tx=shop)
    shop.commit()
    assert await outbox.relay() == 2
    assert sorted(job.queue for job in await disk.jobs()) == ["mail", "post"]
    await disk.worker(["mail"]).run_due()
    assert await outbox.relay() == 1
    assert waiting(shop) == 1


async def test_what_a_full_queue_refused_is_not_overtaken_when_it_has_room_again(disk, shop, outbox, monkeypatch):
    monkeypatch.setattr("standfast.wings.relay.outbox.ROWS_AT_ONCE", 2)
    disk.queue("mail", max_depth=1)
    ran: list[int] = []
    disk.handler("mail")(lambda job: ran.append(job.payload))
    delete = outbox.table.delete  # the moment at which room is made

    async def make_room(numbers: list[int]) -> None:
        await delete(numbers)
        await disk.worker().run_due()

    monkeypatch.setattr(outbox.table, "delete", make_room)
    for number in range(4):
        disk.enqueue_sync("mail", number, tx=shop)
    shop.commit()
    while await outbox.relay():
        pass
    assert ran == [0, 1, 2, 3]


async def test_a_store_that_is_away_leaves_everything_in_the_outbox(disk, shop, database, monkeypatch, caplog):
    monkeypatch.setattr(store_module, "PATIENCE", 0.2)
    monkeypatch.setattr(handle, "BUSY_SECONDS", 0.1)
    await disk.open()
    receipt = disk.enqueue_sync("mail", 1, tx=shop)
    shop.commit()
    outage = Outage(disk.settings.url.value)
    async with disk.outbox(lambda: sqlite3.connect(database), every=0.01):
        await seen(lambda: "will be tried again" in caplog.text)
        assert waiting(shop) == 1
        outage.end()
        await seen(lambda: disk.status(receipt.id))
        await seen(lambda: waiting(shop) == 0)


async def test_a_database_that_is_away_is_tried_again(disk, shop, database, caplog):
    receipt = disk.enqueue_sync("mail", 1, tx=shop)
    shop.commit()
    broken = [True]

    def connect() -> sqlite3.Connection:
        if broken.pop() if broken else False:
            raise sqlite3.OperationalError("disk I/O error")
        return sqlite3.connect(database)

    async with disk.outbox(connect, every=0.01):
        await seen(disk.jobs)
    assert await disk.status(receipt.id)
    assert "disk I/O error" in caplog.text


async def test_a_connection_that_commits_each_statement_by_itself_must_have_begun(disk, database, outbox):
    plain = sqlite3.connect(database, isolation_level=None)
    with pytest.raises(ConfigurationError, match="autocommit mode"):
        await disk.enqueue("mail", 0, tx=plain)
    for number, end in ((1, "ROLLBACK"), (2, "COMMIT")):
        plain.execute("BEGIN")
        await disk.enqueue("mail", number, tx=plain)
        plain.execute(end)
    plain.close()
    assert await outbox.relay() == 1
    assert [job.payload for job in await disk.jobs()] == [2]


async def test_the_store_itself_is_no_database_of_the_callers(path, shop):
    sf = Standfast(path)
    await sf.enqueue("mail", 0)
    own = sqlite3.connect(path)
    shop.execute("ATTACH ? AS ours", (str(Path(path).parent / "." / Path(path).name),))
    for theirs in (own, shop):
        with pytest.raises(ConfigurationError, match="is the store itself"):
            await sf.enqueue("mail", 1, tx=theirs)
        with pytest.raises(ConfigurationError, match="nothing was written"):
            sf.enqueue_sync("mail", 1, tx=theirs)
    shop.close()
    own.close()
    relayed = sf.outbox(lambda: sqlite3.connect(path))
    with pytest.raises(ConfigurationError, match="is the store itself"):
        await relayed.relay()
    await relayed.close()
    with pytest.raises(StoreDamaged, match="db-wal was removed"):  # their library took it for nobody's
        await sf.jobs()
    await sf.close()
    async with Standfast(path) as again:
        assert [job.payload for job in await again.jobs()] == [0]
    await sf.close()


@pytest.mark.parametrize("text", ["no JSON \x00\x1b[31m", '{"id": 5}', 7, b"\xff\xfe", "x" * 1_000_000])
async def test_a_row_that_is_no_job_becomes_a_letter_and_lets_the_others_pass(disk, shop, outbox, text):
    before = disk.enqueue_sync("mail", 1, tx=shop)
    shop.execute("INSERT INTO standfast_outbox (id, job) VALUES ('strange', ?)", (text,))
    after = disk.enqueue_sync("mail", 2, tx=shop)
    shop.commit()
    assert await outbox.relay() == 3
    assert waiting(shop) == 0
    assert [(await job_of(disk, each.id)).state for each in (before, after)] == ["queued", "queued"]
    letter = await job_of(disk, "strange")
    assert (letter.state, failure_of(letter).reason_code, failure_of(letter).landed) == ("dead", "parse_error", "no")
    assert str(text)[:5] in letter.payload


async def test_a_connection_that_makes_something_else_of_rows_will_do(disk, database):
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(database)
        connection.row_factory = lambda _cursor, row: {"row": row}
        return connection

    shop = connect()
    disk.enqueue_sync("mail", 1, tx=shop)
    shop.commit()
    shop.close()
    relayed = disk.outbox(connect)
    assert await relayed.relay() == 1
    await relayed.close()


async def test_enqueueing_needs_no_store_at_hand(tmp_path, shop):
    sf = Standfast(str(tmp_path / "not" / "there.db"))
    sf.enqueue_sync("mail", 1, tx=shop)
    assert not (tmp_path / "not").exists()


FORKING = """
import asyncio, os, sqlite3, sys
from standfast import Standfast

async def relay(outbox, sf, number):
    shop = sqlite3.connect(sys.argv[2])
    sf.enqueue_sync("mail", number, tx=shop)
    shop.commit()
    shop.close()
    return await outbox.relay()

sf = Standfast(sys.argv[1])
outbox = sf.outbox(lambda: sqlite3.connect(sys.argv[2]))
assert asyncio.run(relay(outbox, sf, 1)) == 1
child = os.fork()
if child == 0:
    os._exit(asyncio.run(relay(outbox, sf, 2)))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
assert asyncio.run(relay(outbox, sf, 3)) == 1
"""


async def test_a_forked_child_relays_with_a_thread_of_its_own(disk, database):
    """As a server does that forks its workers: the parent's thread is not there, and its connection is not touched."""
    command = [sys.executable, "-c", FORKING, disk.settings.url.value, database]
    done = await asyncio.to_thread(run_warm, command, env=environment(), timeout=30)
    assert done.returncode == 0
    assert sorted(job.payload for job in await disk.jobs()) == [1, 2, 3]
