"""The audit chain on every engine: decisions are chained with what they change, and whatever is done to it shows."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from standfast import ConfigurationError, Standfast, StandfastError
from standfast.application.wings import RIDERS, store_at
from standfast.failure import Class
from standfast.lifecycle import NoticeKind
from standfast.outcome import Succeeded
from standfast.spine.apply import apply
from standfast.spine.rounds import close
from standfast.store.scripts import writes
from standfast.store.steps import Round
from standfast.store.store import Store
from standfast.testing import FrozenClock
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.verbs import AT_ONCE, Audit
from standfast.wings.audit.words import Decision, Link, digest
from standfast.wings.health.verbs import health
from tests.postgres import connect
from tests.store.processes import Processes
from tests.store.suite import claim_one, claimed, ended, enqueued, failed, new_job, one, replayed

DECIDED = ("ann", "bob", "cid", "dan")


async def ready() -> None:
    """Publish nothing."""


def audit_of(store: Store) -> Audit:
    return Audit(store, ready)


async def letter(store: Store) -> str:
    """Have a letter; give its id."""
    job_id = await one(store)
    await ended(store, await claim_one(store), failed(Class.PERMANENT))
    return job_id


def decided(*people: str) -> list[Decision]:
    return [Decision(kind="policy", by=by, reason="because") for by in people]


# --- what is chained


async def test_a_replay_is_chained_with_the_move_and_what_only_happens_is_not(url, clock):
    async with Standfast(url, clock=clock) as sf:
        store = sf._store  # noqa: SLF001 - to end attempts as the suite does
        job_id = await letter(store)
        await one(store)
        await ended(store, await claim_one(store), Succeeded(None))
        assert await sf.audit.entries() == []
        nothing = {"ok": True, "entries": 0, "head": None, "anchored": None, "anchored_from": None}
        assert await sf.audit.verify() == nothing
        answer = await sf.dead_letters.replay(job_id, by="ann", reason="it is back")
        [entry] = await sf.audit.entries()
        verified = await sf.audit.verify()
    assert answer["outcome"] == entry["outcome"] == "replayed"
    assert (entry["seq"], entry["kind"], entry["job"], entry["queue"]) == (1, "replay", job_id, "mail")
    assert (entry["by"], entry["reason"], entry["rule"]) == ("ann", "it is back", "built-in")
    assert entry["payload_sha256"] == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert entry["at"] == "2026-01-01T00:00:00.000000+00:00", "wall time"
    assert (verified["ok"], verified["entries"]) == (True, 1)


async def test_a_replay_that_comes_too_late_is_not_chained(store):
    job_id = await letter(store)
    move = await replayed(store, job_id)
    assert await store.write_all(apply, [move]) == [False]
    assert [entry["job"] for entry in await audit_of(store).entries()] == [job_id]


async def test_the_decisions_of_one_transaction_are_one_link(store, look):
    await store.write_all(audit.note, decided("ann", "bob"))
    await store.write_all(audit.note, decided("cid"))
    assert [(entry["seq"], entry["by"]) for entry in await audit_of(store).entries()] == [
        (1, "ann"),
        (1, "bob"),
        (2, "cid"),
    ]
    assert look("SELECT seq FROM audit ORDER BY seq") == [(0,), (1,), (2,)]
    assert (await audit_of(store).verify())["entries"] == 3


async def test_nothing_is_chained_of_a_transaction_that_fails(store, look):
    @writes()
    def broken(round_: Round, items: Sequence[None]) -> Any:
        audit.record(round_, *decided("ann"))
        yield "chain_head", {}
        raise ValueError(len(items))

    with pytest.raises(ValueError, match="1"):
        await store._engine.call(broken, [None], seconds=5)  # noqa: SLF001 - no verb fails like this
    assert look("SELECT * FROM audit") == look("SELECT * FROM chain") == []


def test_a_transaction_without_decisions_pays_no_statement():
    round_ = Round(0.0, 0.0, "", RIDERS)
    assert list(close(round_)) == []
    round_.notices[NoticeKind.ENQUEUED, "mail"].append("job")
    assert [name for name, _ in close(round_)] == ["write_journal", "add_counters"]


def test_the_link_comes_last_and_has_wall_time():
    """On PostgreSQL it locks the head: whoever holds that must wait for nobody."""
    round_, part = Round(10.0, 5.0, "", RIDERS), Round(10.0, 5.0, "", RIDERS)
    part.notices[NoticeKind.REPLAYED, "mail"].append("job")
    audit.record(part, *decided("ann"))
    round_.absorb(part)
    script, steps = close(round_), list[Any]()
    step = next(script)
    with suppress(StopIteration):
        while True:
            steps.append(step)
            step = script.send([("store", 6, "0" * 64)] if step[0] == "chain_head" else [])
    names = [name for name, _ in steps]
    assert names == ["write_journal", "add_counters", "chain_head", "write_links", "move_head"]
    [link] = steps[3][1]
    assert (link.seq, link.at) == (7, "1970-01-01T00:00:15.000000+00:00")
    assert round_.audit_links == [link.head]


async def test_secrets_and_what_acts_on_a_terminal_are_not_kept(store, look):
    """Capability 87. The chain is kept for good: nothing can be taken out of it later."""
    secret = "hunter2-hunter2"  # noqa: S105 - a test's
    said = f"two\nlines, password={secret}"
    detail = {"api_key": secret, "before_sha256": "ab" * 32, "count": 3}
    await store.write_all(audit.note, [Decision(kind="amend", by="a\x1b[31mb", reason=said, detail=detail)])
    [entry] = await audit_of(store).entries()
    assert (entry["by"], entry["reason"]) == ("a\ufffdb", "two lines, password=***")
    assert entry["detail"] == {**detail, "api_key": "***"}
    assert secret not in str(look("SELECT entries FROM audit"))


# --- reading


async def test_entries_are_paged_by_whole_links_and_filtered(store):
    for number in range(4):
        await store.write_all(
            audit.note, [Decision(kind="evict", job=f"job-{number}", queue="mail"), Decision(kind="policy", by="evict")]
        )
    told = audit_of(store)

    async def seen(**wanted: Any) -> list[tuple[int, str]]:
        return [(entry["seq"], entry["kind"]) for entry in await told.entries(**wanted)]

    assert await seen(limit=5) == [(1, "evict"), (1, "policy"), (2, "evict"), (2, "policy")]
    assert await seen(limit=1) == [(1, "evict"), (1, "policy")], "one transaction's stay together"
    assert await seen(after=3) == [(4, "evict"), (4, "policy")]
    assert await seen(kind="evict", after=1, limit=2) == [(2, "evict"), (3, "evict")]
    assert await seen(job="job-2") == [(3, "evict")]
    assert await seen(job="job-2", kind="policy") == await seen(job="job") == await seen(job='x"') == []
    for wrong in ({"kind": "x"}, {"limit": 0}, {"after": -1}, {"limit": "3"}):
        with pytest.raises(ConfigurationError):
            await told.entries(**wrong)


async def test_a_long_chain_is_read_in_bites(store, monkeypatch):
    monkeypatch.setattr("standfast.wings.audit.verbs.AT_ONCE", 2)
    for by in DECIDED:
        await store.write_all(audit.note, decided(by))
    assert [entry["by"] for entry in await audit_of(store).entries()] == list(DECIDED)
    assert (await audit_of(store).verify())["entries"] == len(DECIDED)
    assert AT_ONCE > 2


def documented() -> str:
    """Give the program by which the docs have somebody check an export."""
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
    return page.partition("```python\n")[2].partition("```")[0]


async def test_an_export_holds_the_very_text_that_was_hashed(store, tmp_path):
    await store.write_all(audit.note, [Decision(kind="amend", reason="grüße", detail={"z": 1.5, "a": None})])
    path = tmp_path / "chain.jsonl"
    told = await audit_of(store).export(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    head = json.loads(lines[-1])["hash"]
    assert told == {"path": str(path), "links": 2, "head": head, "ok": True}
    exec(documented(), {"open": lambda *_, **__: iter(lines)})  # noqa: S102 - the docs' own words
    with pytest.raises(AssertionError):
        exec(documented(), {"open": lambda *_, **__: iter([lines[0], lines[1].replace("amend", "purge")])})  # noqa: S102
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(ConfigurationError, match="nothing was overwritten"):
        await audit_of(store).export(path)
    with pytest.raises(ConfigurationError, match="name another file"):
        await audit_of(store).export(tmp_path / "missing" / "chain.jsonl")


# --- tampering


class Chained:
    """A store with a chain, closed, that can be changed from outside."""

    def __init__(self, url: str, directory: Path, clock: FrozenClock) -> None:
        self.url = url
        self._clock = clock
        self._audit_file = directory / "heads"

    @property
    def anchor(self) -> Path:
        return self._audit_file if "://" in self.url else Path(f"{self.url}-audit")

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        store = store_at(self.url, self._clock, audit_file=str(self._audit_file))
        try:
            yield store
        finally:
            await asyncio.to_thread(store.close)

    async def decide(self, *people: str) -> None:
        async with self.opened() as store:
            for by in people:
                await store.write_all(audit.note, decided(by))

    async def verified(self) -> dict[str, Any]:
        async with self.opened() as store:
            return await audit_of(store).verify()

    async def links(self) -> list[Link]:
        async with self.opened() as store:
            return await store.read(audit.links(-1, 100))

    def change(self, *statements: str) -> None:
        """Change the closed store as somebody does who has the file, or the database."""
        with closing(connect(self.url) if "://" in self.url else apsw.Connection(self.url)) as connection:
            for sql in statements:
                connection.execute(sql)


@pytest.fixture
async def chained(shared_url: str, tmp_path: Path, clock: FrozenClock) -> Chained:
    """Give a store with four links behind the first, closed."""
    made = Chained(shared_url, tmp_path, clock)
    await made.decide(*DECIDED)
    return made


RENUMBER = ("UPDATE audit SET seq = -seq WHERE seq > 2", "UPDATE audit SET seq = -seq - 1 WHERE seq < 0")
EXCHANGE = (
    *("UPDATE audit SET seq = -1 WHERE seq = 2", "UPDATE audit SET seq = 2 WHERE seq = 3"),
    "UPDATE audit SET seq = 3 WHERE seq = -1",
)
HEAD = "UPDATE chain SET seq = {0}, hash = (SELECT hash FROM audit WHERE seq = {0})"
TEXTS = (
    """UPDATE audit SET entries = (SELECT entries FROM audit AS o WHERE o.seq = 5 - audit.seq) WHERE seq IN (2, 3)"""
)


@pytest.mark.parametrize(
    ("statements", "seq"),
    [
        pytest.param(["UPDATE audit SET entries = replace(entries, 'bob', 'eve') WHERE seq = 2"], 2, id="edit"),
        pytest.param(["UPDATE audit SET at = '2025-01-01T00:00:00.000000+00:00' WHERE seq = 3"], 3, id="time"),
        pytest.param(["DELETE FROM audit WHERE seq = 2"], 2, id="removal"),
        pytest.param(["DELETE FROM audit WHERE seq = 2", *RENUMBER, HEAD.format(3)], 2, id="renumbered"),
        pytest.param(["DELETE FROM audit WHERE seq > 2"], 3, id="cut"),
        pytest.param(["DELETE FROM audit WHERE seq > 2", HEAD.format(2)], 3, id="cut, head set back"),
        pytest.param([HEAD.format(2)], 3, id="head set back"),
        pytest.param(["DELETE FROM audit", "DELETE FROM chain"], 0, id="everything gone"),
        pytest.param(["DELETE FROM chain"], 0, id="head gone"),
        pytest.param(["UPDATE chain SET store = 'other'"], 0, id="another store's"),
        pytest.param([*EXCHANGE], 2, id="reordered"),
        pytest.param([TEXTS], 2, id="texts exchanged"),
    ],
)
async def test_tampering_is_found_at_its_first_link(chained, statements, seq):
    whole = await chained.verified()
    assert (whole["ok"], whole["entries"], whole["anchored"], "problem" in whole) == (True, 4, 4, False)
    chained.change(*statements)
    found = await chained.verified()
    assert (found["ok"], found["problem"]["seq"]) == (False, seq), found


async def test_a_chain_made_anew_by_somebody_who_knows_how_is_found_outside(chained):
    links = await chained.links()
    before = links[1].hash
    for link in links[2:]:
        entries = link.entries.replace("bob", "eve")
        hashed = digest(link.seq, link.at, entries, before)
        chained.change(
            f"UPDATE audit SET entries = '{entries}', previous = '{before}', hash = '{hashed}' WHERE seq = {link.seq}"  # noqa: S608 - a test's
        )
        before = hashed
    chained.change(HEAD.format(4))
    found = await chained.verified()
    assert (found["ok"], found["problem"]["seq"]) == (False, 2)
    chained.anchor.unlink()
    assert (await chained.verified())["ok"], "what is noted nowhere cannot be missed"


async def test_what_goes_on_behind_a_cut_still_shows_it(chained):
    chained.change("DELETE FROM audit WHERE seq > 2", HEAD.format(2))
    await chained.decide("eve", "eve", "eve")
    found = await chained.verified()
    assert (found["entries"], found["problem"]["seq"]) == (5, 3)


async def test_an_exchanged_store_is_found(chained, tmp_path, clock):
    """A file that was put in the place of another, as its anchor sees it: on a server, a schema."""
    other = Chained(str(tmp_path / "other.db"), tmp_path / "elsewhere", clock)
    await other.decide(*DECIDED, "eve")
    other.anchor.replace(chained.anchor)
    found = await chained.verified()
    assert (found["ok"], found["problem"]["seq"]) == (False, 0)
    assert "another chain" in found["problem"]["why"]


async def test_deciding_goes_on_in_a_chain_that_was_tampered_with(chained):
    """Who has cut a record must not be able to stop the work too."""
    chained.change("DELETE FROM audit WHERE seq = 4", "UPDATE audit SET entries = 'bob' WHERE seq = 2")
    await chained.decide("eve")
    assert (await chained.verified())["problem"]["seq"] == 2
    async with chained.opened() as store:
        with pytest.raises(StandfastError, match="link 2 of the audit chain was changed"):
            await audit_of(store).entries()
        assert [entry["by"] for entry in await audit_of(store).entries(after=2)] == ["cid", "eve"]


# --- outside


async def test_heads_are_noted_in_the_log_and_in_a_private_file(chained, caplog):
    links = await chained.links()
    named, *noted = chained.anchor.read_text(encoding="ascii").splitlines()
    assert noted == [f"{link.seq} {link.hash}" for link in links]
    assert named.isdecimal(), "a number that no other file has"
    assert stat.S_IMODE(chained.anchor.stat().st_mode) == 0o600
    with caplog.at_level(logging.INFO, "standfast.audit"):
        await chained.decide("eve")
    [record] = [record for record in caplog.records if record.name == "standfast.audit"]
    assert record.getMessage() == f"audit head 5 {(await chained.links())[-1].hash}"


def test_closing_waits_until_heads_are_noted(shared_url, clock, tmp_path, monkeypatch):
    began, go_on, noted = threading.Event(), threading.Event(), []

    def slow(_path: str, lines: bytes, _first: bytes) -> None:
        began.set()
        go_on.wait(10)
        noted.append(lines)

    monkeypatch.setattr("standfast.wings.audit.anchor.append", slow)
    store = store_at(shared_url, clock, audit_file=str(tmp_path / "heads"))
    store.write_all(audit.note, decided("ann")).result()  # it is on disk, and waits for no file
    assert began.wait(10)
    closing_ = threading.Thread(target=store.close)
    closing_.start()
    closing_.join(0.1)
    assert (closing_.is_alive(), noted) == (True, [])
    go_on.set()
    closing_.join()
    assert len(b"".join(noted).splitlines()) == 2


async def test_a_store_that_is_killed_before_its_head_is_noted_makes_up_for_it(chained, processes: Processes):
    child = processes.start("decide_and_die", chained.url, str(chained.anchor))
    child.hear()
    child.go()
    child.leave()
    noted = chained.anchor.read_text(encoding="ascii").splitlines()
    assert len(noted) == 6, "its name, the beginning and the first four, but not what was committed last"
    found = await chained.verified()
    assert (found["ok"], found["entries"], found["anchored"]) == (True, 5, 5)
    assert len(chained.anchor.read_text(encoding="ascii").splitlines()) == 7
    await chained.verified()
    assert len(chained.anchor.read_text(encoding="ascii").splitlines()) == 7, "once is enough"


async def test_a_line_that_a_crash_tore_is_passed_over(chained):
    torn = chained.anchor.read_bytes()[:-20]
    chained.anchor.write_bytes(torn)
    found = await chained.verified()
    assert (found["ok"], found["anchored"]) == (True, 4)
    lines = chained.anchor.read_bytes().splitlines()
    assert (lines[-2], lines[-1]) == (torn.splitlines()[-1], f"4 {found['head']}".encode())


@pytest.mark.parametrize(("left", "first"), [(0, 0), (1, 1), (4, 3)])
async def test_lines_that_were_taken_out_show_for_good(chained, clock, left, first):
    for by in ("eve", "fay"):
        clock.advance(3600)
        await chained.decide(by)
    lines = chained.anchor.read_bytes().splitlines(keepends=True)
    chained.anchor.write_bytes(b"".join(lines[:left]))
    for _ in range(2):  # opening the store makes up for the lines, and says so
        found = await chained.verified()
        assert (found["ok"], found["problem"]["seq"]) == (False, first)
        assert f"links {first} to 6 were not noted outside in their time" in found["problem"]["why"]
    mended = [line for line in chained.anchor.read_bytes().splitlines(keepends=True) if not line.startswith(b"cut")]
    chained.anchor.write_bytes(b"".join(mended))
    assert (await chained.verified())["ok"], "somebody knows why, and took the line out"


async def test_a_file_that_is_new_tells_from_where_on_it_knows(chained):
    whole = await chained.verified()
    assert "begins_late" not in whole
    chained.anchor.unlink()
    found = await chained.verified()
    assert (found["ok"], found["anchored_from"], found["anchored"]) == (True, 4, 4)
    assert "begins with link 4" in found["begins_late"]


async def test_a_line_that_is_not_ours_is_found(chained):
    with chained.anchor.open("ab") as file:
        file.write(b"all is well\n")
    found = await chained.verified()
    assert (found["ok"], "line 7" in found["problem"]["why"]) == (False, True)


class Hosts:
    """Hosts that share one store, each with a file of its own."""

    def __init__(self, url: str, directory: Path, clock: FrozenClock) -> None:
        self._url, self._directory, self._clock = url, directory, clock

    def named(self, name: str) -> Chained:
        directory = self._directory / name
        directory.mkdir(exist_ok=True)
        return Chained(self._url, directory, self._clock)

    async def decide(self, host: Chained, *people: str) -> None:
        """Decide so that more time passes than a crash explains."""
        for by in people:
            self._clock.advance(3600)
            await host.decide(by)

    async def decide_without_file(self, *people: str) -> None:
        """Decide as a command does that was started where no settings name a file."""
        for by in people:
            self._clock.advance(3600)
            store = store_at(self._url, self._clock)
            await store.write_all(audit.note, decided(by))
            await asyncio.to_thread(store.close)


@pytest.fixture
def hosts(postgres_url: str, tmp_path: Path, clock: FrozenClock) -> Hosts:
    return Hosts(postgres_url, tmp_path, clock)


async def test_a_file_does_not_vouch_for_what_another_host_decided(hosts):
    one, other = hosts.named("one"), hosts.named("other")
    await hosts.decide(one, "ann")
    await hosts.decide(other, "bob", "cid")
    await hosts.decide_without_file("dan", "eve")
    for host in (one, other, one):
        found = await host.verified()
        assert (found["ok"], found["entries"], found["anchored"]) == (True, 5, 5), found
    await hosts.decide(one, "fay")
    assert [(await host.verified())["ok"] for host in (one, other)] == [True, True]
    assert b"cut" not in one.anchor.read_bytes() + other.anchor.read_bytes()


async def test_a_file_that_lost_lines_of_its_own_shows_it_whatever_other_hosts_did(hosts):
    one, other = hosts.named("one"), hosts.named("other")
    await hosts.decide(one, "ann")
    await hosts.decide(other, "bob")
    await hosts.decide(one, "cid")
    await hosts.decide(other, "dan")
    await hosts.decide(one, "eve")
    await hosts.decide(other, "fay")
    lines = one.anchor.read_bytes().splitlines(keepends=True)
    one.anchor.write_bytes(b"".join(lines[:3]))  # up to link 1
    found = await one.verified()
    assert (found["ok"], found["problem"]["seq"]) == (False, 3)
    assert "links 3 to 5 were not noted outside in their time" in found["problem"]["why"]
    assert (await other.verified())["ok"]


async def test_a_file_of_an_older_library_still_serves(hosts, monkeypatch):
    """Its first line is a head, and its links do not say where they are noted. Two such files may begin alike."""
    one, other = hosts.named("one"), hosts.named("other")
    await hosts.decide_without_file("ann", "bob", "cid")
    links = await one.links()
    for host in (one, other):
        host.anchor.write_text(f"{links[1].seq} {links[1].hash}\n", encoding="ascii")
    found = await one.verified()
    assert (found["ok"], found["anchored_from"], found["anchored"]) == (True, 1, 3)
    await hosts.decide(one, "dan", "eve")
    with monkeypatch.context() as elsewhere:  # this machine is one host only
        elsewhere.setattr("socket.gethostname", lambda: "other")
        assert (await other.verified())["ok"]
    whole = one.anchor.read_bytes()
    one.anchor.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
    found = await one.verified()
    assert (found["ok"], found["problem"]["seq"]) == (False, 4)
    one.anchor.write_bytes(whole)
    assert (await one.verified())["ok"]


async def test_where_a_link_is_noted_is_in_the_chain_and_not_among_the_decisions(hosts, tmp_path):
    host = hosts.named("one")
    await host.decide("ann")
    async with host.opened() as store:
        [entry] = await audit_of(store).entries()
        await audit_of(store).export(tmp_path / "chain.jsonl")
    assert "noted_in" not in entry
    genesis, link = (json.loads(line) for line in (tmp_path / "chain.jsonl").read_text(encoding="utf-8").splitlines())
    assert "noted_in" not in genesis["entries"][0]
    assert len(link["entries"][0]["noted_in"]) == 32


async def test_an_export_of_a_broken_chain_says_so(chained, tmp_path):
    async with chained.opened() as store:
        assert (await audit_of(store).export(tmp_path / "whole.jsonl"))["ok"]
    chained.change("DELETE FROM audit WHERE seq = 2")
    async with chained.opened() as store:
        told = await audit_of(store).export(tmp_path / "broken.jsonl")
    assert (told["ok"], told["problem"]["seq"], told["links"]) == (False, 2, 4)


async def test_a_file_that_cannot_be_written_stops_nobody(chained, caplog):
    chained.anchor.unlink()
    chained.anchor.mkdir()
    with caplog.at_level(logging.WARNING, "standfast.audit"):
        await chained.decide("eve")
    assert any("cannot note" in record.getMessage() for record in caplog.records)
    with pytest.raises(ConfigurationError, match="let this user read"):
        await chained.verified()
    chained.anchor.rmdir()
    assert (await chained.verified())["anchored"] == 5


async def test_health_tells_of_a_file_that_cannot_be_written_until_it_can(chained):
    chained.anchor.unlink()
    chained.anchor.mkdir()
    await chained.decide("eve")
    async with chained.opened() as store:  # another process, which was told of no failure
        assert await unnoted(store) == [f"audit: the chain's head cannot be noted in {chained.anchor}: Is a directory"]
    chained.anchor.rmdir()
    async with chained.opened() as store:
        assert await unnoted(store) == []


async def unnoted(store: Store) -> list[str]:
    await store.read(audit.links(-1, 1))  # it is open now
    found = (await health(store))["issues"]
    return [issue.partition(";")[0] for issue in found if issue.startswith("audit:")]


# --- several at once


async def test_a_chain_can_be_verified_while_others_decide(chained):
    """What is added meanwhile is neither a cut end nor a link too many."""
    answers: list[dict[str, Any]] = []

    async def decide(store: Store) -> None:
        for number in range(40):
            await store.write_all(audit.note, decided(f"person-{number}"))

    async with chained.opened() as store:
        deciding = asyncio.create_task(decide(store))
        while not deciding.done():
            answers.append(await audit_of(store).verify())
        await deciding
        answers.append(await audit_of(store).verify())
    assert [answer for answer in answers if not answer["ok"]] == []
    assert answers[-1]["entries"] == 44


@pytest.fixture
def letters(shared_url: str, clock: FrozenClock) -> list[str]:
    """Give the ids of letters in a store that is closed again."""
    store = store_at(shared_url, clock)

    async def make() -> list[str]:
        ids = await enqueued(store, *(new_job() for _ in range(36)))
        for claim in await claimed(store, slots=36):
            await ended(store, claim, failed(Class.PERMANENT))
        return ids

    ids = asyncio.run(make())
    store.close()
    return ids


async def test_several_processes_that_decide_at_once_make_one_chain(shared_url, letters, processes, tmp_path):
    heads, config = str(tmp_path / "heads"), tmp_path / "standfast.toml"
    config.write_text(f'[store]\naudit_file = "{heads}"\n', encoding="utf-8")
    children = [processes.start("replay_each", shared_url, str(config), *letters[place::3]) for place in range(3)]
    for child in children:
        child.hear()
    for child in children:
        child.go()
    assert [child.hear() for child in children] == [["done"]] * 3
    store = store_at(shared_url, audit_file=heads)
    try:
        found = await audit_of(store).verify()
        entries = await audit_of(store).entries(limit=100)
        assert (found["ok"], found["entries"]) == (True, 36), found
        assert sorted(entry["job"] for entry in entries) == sorted(letters)
        assert len({entry["by"] for entry in entries}) == 3
        assert found["anchored"] == entries[-1]["seq"]
    finally:
        store.close()
