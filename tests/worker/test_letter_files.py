"""Letters written out and read back: whole, once, and told who did it."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from standfast import ConfigurationError, Effect, Standfast, Uncertain
from standfast.testing import drain, memory
from standfast.testing.kit import InMemory
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.waiting import job_of
from tests.worker.governing import Rulebook, broken, govern, letter
from tests.worker.importing import AT_ONCE
from tests.worker.inside import store_of
from tests.worker.processes import environment

IMPORTING = Path(__file__).with_name("importing.py")

ASKED: dict[str, Any] = {"by": "ann", "reason": "ticket 7"}
SAME = (
    *("id", "queue", "handler", "priority", "payload", "payload_sha256", "attempts", "generation", "created_at"),
    *("first_seen_at", "finished_at", "idempotency_key", "thread_key", "session", "requester", "labels", "risk"),
    *("failure", "first_failure", "history", "effects", "replays", "queue_reason"),
)
"""What a letter is in another store as well."""


async def whole(sf: InMemory) -> str:
    """Make a letter that has everything a letter can have."""
    sf.queue("mail", attempts=2)

    @sf.handler("mail", replay="verify_first", effects=[Effect("ticket"), Effect("note", lambda _job: False)])
    async def handle(job):
        await job.once("ticket", lambda: {"id": 7})
        raise Uncertain("who knows 12")

    options: dict[str, Any] = {"idempotency_key": "k", "thread_key": "t", "priority": 3, "session": "s"}
    receipt = await sf.enqueue("mail", {"n": 1}, **options, requester="rita", risk="high", labels={"team": "a"})
    assert receipt.id is not None
    for _ in range(3):  # the first made progress, and is not counted
        await drain(sf)
        sf.clock.advance(600)
    await sf.dead_letters.amend(receipt.id, {"n": 2}, **ASKED)
    return receipt.id


async def test_a_letter_is_the_same_in_another_store(sf, tmp_path):
    job_id = await whole(sf)
    file = tmp_path / "letters.jsonl"
    assert await sf.dead_letters.export(file, **ASKED) == {"path": str(file), "letters": 1}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    there = await sf.dead_letters.get(job_id)
    async with memory() as other:
        other.clock.advance("3d")  # its queue time is another
        assert await other.dead_letters.import_(file, **ASKED) == {"imported": 1, "known": 0, "without_key": 0}
        here = await other.dead_letters.get(job_id)
        assert [name for name in SAME if getattr(here, name) != getattr(there, name)] == []
        assert (here.triage, here.fingerprint) == (there.triage, there.fingerprint)
        assert here.fingerprint is not None
        [entry] = await other.audit.entries(kind="import")
        assert (entry["job"], entry["by"], entry["payload_sha256"]) == (job_id, "ann", here.payload_sha256)
        assert await other.dead_letters.import_(file, **ASKED) == {"imported": 0, "known": 1, "without_key": 0}
        again = await other.enqueue("mail", {"n": 2}, idempotency_key="k~g1")
        assert (again.outcome, again.id) == ("duplicate", job_id)
        [group] = await other.dead_letters.groups()
        assert [each.id for each in await other.dead_letters.list({"fingerprint": group["fingerprint"]})] == [job_id]
        ran = []

        @other.handler("mail", effects=[Effect("ticket"), Effect("note", lambda _job: False)])
        async def handle(job):
            ran.append((job.payload, await job.once("ticket", lambda: {"id": 8})))

        assert (await other.dead_letters.replay(job_id, by="ann"))["outcome"] == "replayed"
        await drain(other)
        assert ((await job_of(other, job_id)).state, ran) == ("completed", [({"n": 2}, {"id": 7})])
        assert (await other.audit.verify())["ok"]
    [entry] = await sf.audit.entries(kind="export")
    assert (entry["by"], entry["reason"]) == ("ann", "ticket 7")


async def test_an_import_on_every_engine_gives_the_letter_back(sf):
    """What was purged can be brought back from its export; its key still answers for it, and is its own again."""
    job_id = await whole(sf)
    before = await sf.dead_letters.get(job_id)
    file = io.BytesIO()
    await sf.dead_letters.export(file, {"queue": "mail"})
    await sf.dead_letters.purge(**ASKED, confirm=1)
    file.seek(0)
    told = await sf.dead_letters.import_(file, **ASKED)
    assert told == {"imported": 1, "known": 0, "without_key": 0}
    after = await sf.dead_letters.get(job_id)
    assert [name for name in SAME if getattr(after, name) != getattr(before, name)] == []
    assert (await sf.dead_letters.replay(job_id, by="ann"))["outcome"] == "replayed"
    assert (await job_of(sf, job_id)).state == "queued"


async def test_the_file_holds_what_is_hidden_elsewhere(sf):
    sf.queue("web", attempts=1, destinations=["127.0.0.1"])
    await sf.enqueue_http("web", "POST", "http://127.0.0.1:9/", headers={"Authorization": "Bearer s3cret"})
    await drain(sf)
    file = io.StringIO()
    assert (await sf.dead_letters.export(file))["letters"] == 1
    assert json.loads(file.getvalue())["payload"]["headers"] == {"Authorization": "Bearer s3cret"}


async def test_many_letters_come_in_bites(sf, monkeypatch):
    monkeypatch.setattr("standfast.wings.letters.letter_export.BITE", 3)
    monkeypatch.setattr("standfast.wings.letters.letter_import.BITE", 3)
    broken(sf, "mail")
    receipts = await sf.enqueue_many("mail", [{"n": n} for n in range(7)])
    await drain(sf)
    file, heard = io.BytesIO(), []
    await sf.dead_letters.export(file, progress=lambda step: heard.append(step.done))
    assert heard == [3, 6, 7]
    async with memory() as other:
        file.seek(0)
        assert (await other.dead_letters.import_(file, **ASKED))["imported"] == 7
        assert {each.id for each in await other.dead_letters.list()} == {each.id for each in receipts}


async def test_what_would_happen_by_itself_waits_for_a_person_elsewhere(sf):
    broken(sf, "mail")
    govern(sf, Rulebook("require_approval"))
    job_id = await letter(sf)
    await sf.dead_letters.replay(job_id, by="alex")
    file = io.BytesIO()
    await sf.dead_letters.export(file)
    async with memory() as other:
        file.seek(0)
        await other.dead_letters.import_(file, **ASKED)
        here = await other.dead_letters.get(job_id)
        assert here.triage is not None
        assert (here.state, here.triage.replay_status) == ("dead", "pending_review")


async def test_a_key_that_belongs_to_another_job_stays_there(sf):
    broken(sf, "mail")
    receipt = await sf.enqueue("mail", {"n": 1}, idempotency_key="k")
    await drain(sf)
    file = io.BytesIO()
    await sf.dead_letters.export(file)
    async with memory() as other:
        owner = await other.enqueue("mail", {"n": 5}, idempotency_key="k")
        file.seek(0)
        told = await other.dead_letters.import_(file, **ASKED)
        assert told == {"imported": 1, "known": 0, "without_key": 1}
        assert (await other.dead_letters.get(receipt.id)).idempotency_key is None
        assert (await other.enqueue("mail", {"n": 5}, idempotency_key="k")).id == owner.id


async def test_an_import_that_is_killed_and_run_again_brings_each_letter_once(url, tmp_path):
    file = tmp_path / "letters.jsonl"
    async with memory() as other:
        broken(other, "mail")
        await other.enqueue_many("mail", [{"n": n} for n in range(7)], keys=lambda payload: f"k-{payload['n']}")
        await drain(other)
        await other.dead_letters.export(file)
    killed = await asyncio.to_thread(killed_import, url, file)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    async with Standfast(url) as sf:
        assert len(await sf.dead_letters.list()) == AT_ONCE
        told = await sf.dead_letters.import_(file, **ASKED)
        assert told == {"imported": 7 - AT_ONCE, "known": AT_ONCE, "without_key": 0}
        assert await sf.dead_letters.import_(file, **ASKED) == {"imported": 0, "known": 7, "without_key": 0}
        assert sorted(each.idempotency_key or "" for each in await sf.dead_letters.list()) == [
            f"k-{n}" for n in range(7)
        ]


def killed_import(url: str, file: Path) -> subprocess.CompletedProcess[str]:
    """Import in a process that is killed after the first transaction."""
    command = [sys.executable, str(IMPORTING), url, str(file)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("how", ["replayed", "resolved", "discarded", "discarded and purged"])
async def test_a_letter_that_ended_meanwhile_does_not_come_back(sf, how):
    """Not while it is kept, and not when it is pruned: importing it again would have it done again."""
    failing = broken(sf, "mail")
    job_id = await letter(sf)
    file = io.BytesIO()
    await sf.dead_letters.export(file)
    failing.clear()
    if how == "replayed":
        await sf.dead_letters.replay(job_id, by="ann")
        await drain(sf)
    elif how == "resolved":
        await sf.dead_letters.resolve(job_id, **ASKED, result="done by hand")
    else:
        await sf.dead_letters.discard(job_id, **ASKED)
    if how == "discarded and purged":
        assert (await sf.dead_letters.purge({}, confirm=1, **ASKED))["purged"] == 1
    assert await again(sf, file) == {"imported": 0, "known": 1, "without_key": 0}
    sf.clock.advance("3d")
    await store_of(sf).write(upkeep.prune, PruneRequest())
    assert await sf.status(job_id) is None
    assert await again(sf, file) == {"imported": 0, "known": 1, "without_key": 0}
    assert await sf.dead_letters.list() == []
    sf.clock.advance("400d")
    await store_of(sf).write(upkeep.prune, PruneRequest())
    assert (await again(sf, file))["imported"] == 1, "nothing is remembered for good"


async def test_a_letter_that_was_purged_by_mistake_comes_back_from_its_file(sf):
    broken(sf, "mail")
    job_id = await letter(sf)
    file = io.BytesIO()
    await sf.dead_letters.export(file)
    await sf.dead_letters.purge({}, confirm=1, **ASKED)
    assert (await again(sf, file))["imported"] == 1
    assert (await sf.dead_letters.get(job_id)).state == "dead"


async def again(sf: InMemory, file: io.BytesIO) -> dict[str, int]:
    file.seek(0)
    told: dict[str, int] = await sf.dead_letters.import_(file, **ASKED)
    return told


async def test_nothing_is_overwritten(sf, tmp_path):
    file = tmp_path / "there"
    file.write_text("precious")
    with pytest.raises(ConfigurationError, match="nothing was overwritten"):
        await sf.dead_letters.export(file)
    with pytest.raises(ConfigurationError, match="unknown filter"):
        await sf.dead_letters.export(tmp_path / "new", {"que": "mail"})
    assert (file.read_text(), (tmp_path / "new").exists(), await sf.audit.entries()) == ("precious", False, [])


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (b"{}", "missing required field"),
        (b"not json", "malformed"),
        (b"\xff\xfe", "."),
        ({"format": 2}, "its format is 2"),
        ({"queue": "\x1b[2J"}, "queue must be printable"),
        ({"payload": [float("inf")]}, "not JSON|malformed|Infinity"),
        ({"failure": {"class": "odd"}}, "Invalid enum value"),
    ],
)
async def test_a_line_that_is_no_letter_is_named(sf, wrong, why):
    broken(sf, "mail")
    await letter(sf)
    file = io.BytesIO()
    await sf.dead_letters.export(file)
    good = file.getvalue()
    bad = wrong if isinstance(wrong, bytes) else json.dumps({**json.loads(good), "id": "another", **wrong}).encode()
    async with memory() as other:
        with pytest.raises(ConfigurationError, match=f"line 2 is not a letter of standfast: .*({why})"):
            await other.dead_letters.import_(io.BytesIO(good + bad + b"\n"), **ASKED)
        assert await other.dead_letters.list() == []
        told = await other.dead_letters.import_(io.BytesIO(good + b"\n" + good), **ASKED)
        assert told["imported"] == 1
    with pytest.raises(ConfigurationError, match="cannot read"):
        await sf.dead_letters.import_("nowhere/at/all", **ASKED)
