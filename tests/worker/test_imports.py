"""Records of other queues brought in: each once, with what they have behind them, and none run that may be done."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from standfast import ConfigurationError, JobView, Standfast
from standfast.errors import Backpressure
from standfast.testing import drain
from standfast.testing.kit import InMemory
from standfast.wings.imports import known_shapes
from standfast.wings.imports.field_map import FIELDS
from standfast.wings.imports.jsonl_reader import jsonl
from standfast.wings.imports.ops_reader import ops
from standfast.wings.imports.sqlite_reader import sqlite
from standfast.wings.imports.words import ImportOptions, Report
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.worker.inside import store_of
from tests.worker.old_stores import SEEN, dead_event, event, lines, op, queued_event, tables

LONG_AGO = datetime.fromtimestamp(SEEN, UTC)


async def brought(sf: InMemory, path: str, **options: Any) -> Report:
    """Import a file of JSON lines."""
    return await sf.imports.bring_in(jsonl(path), known_shapes.JSONL, ImportOptions(**options), by="ann")


def read_rejects(path: str) -> tuple[int, list[dict[str, Any]]]:
    """Give who may read a file of rejects, and its lines."""
    file = Path(path)
    return file.stat().st_mode & 0o777, [json.loads(line) for line in file.read_text().splitlines()]


async def by_payload(sf: InMemory, **chosen: Any) -> dict[Any, JobView]:
    """Give every job by the number in its payload."""
    found = {}
    for job in await sf.jobs(limit=500, **chosen):
        whole = await sf.status(job.id)
        assert whole is not None
        found[whole.payload["n"]] = whole
    return found


async def test_a_waiting_record_runs_and_keeps_its_age_its_key_and_its_labels(sf, tmp_path):
    ran = []
    sf.handler("mail")(lambda job: ran.append((job.payload, job.idempotency_key)))
    file = lines(tmp_path / "q", [event(1, idempotency_key="k1", labels={"team": "a"}, priority=4)])
    report = await brought(sf, file)
    assert dict(report.outcomes) == {"queued": 1}
    job = (await by_payload(sf))[1]
    assert (job.state, job.first_seen_at, job.labels, job.priority) == ("queued", LONG_AGO, {"team": "a"}, 4)
    assert (await sf.enqueue("mail", {"n": 1}, idempotency_key="k1")).outcome == "duplicate"
    await drain(sf)
    assert ran == [({"n": 1}, "k1")]


TO_THE_MICROSECOND = [datetime(2024, 5, 6, 7, 8, 9, 123_457, UTC), datetime(2025, 12, 31, 23, 59, 59, 999_999, UTC)]


@pytest.mark.parametrize("engine", ["file", "postgres"])
async def test_an_imported_time_reads_back_exactly_as_its_source_had_it(request, engine, path, tmp_path):
    """By the machine's clocks, of which no two readings are the same moment."""
    url = path if engine == "file" else request.getfixturevalue("used_postgres_url")
    events = [
        event(number, created_at=written, **more)
        for at in TO_THE_MICROSECOND
        for written in (at.isoformat(), at.timestamp(), str(at.timestamp()))
        for number, more in enumerate(({}, {"status": "dead_letter", "dead_at": written}))
    ]
    file = lines(tmp_path / "q", [{**each, "id": str(number)} for number, each in enumerate(events)])
    async with Standfast(url) as sf:
        await sf.imports.bring_in(jsonl(file), known_shapes.JSONL, ImportOptions(), by="ann")
    async with Standfast(url) as again:
        for _ in range(20):
            letters, jobs = await again.jobs(state="dead"), await again.jobs(state="queued")
            assert Counter(job.first_seen_at for job in jobs) == dict.fromkeys(TO_THE_MICROSECOND, 3)
            for name in ("first_seen_at", "created_at", "finished_at"):
                assert Counter(getattr(job, name) for job in letters) == dict.fromkeys(TO_THE_MICROSECOND, 3), name


async def test_a_second_run_brings_nothing_twice_even_after_everything_was_pruned(sf, tmp_path):
    sf.handler("mail")(lambda _job: None)
    without_id = {"queue": "mail", "payload": {"n": 3}}
    file = lines(tmp_path / "q", [event(1), event(2, status="dead_letter", attempts=5), without_id, without_id])
    assert dict((await brought(sf, file)).outcomes) == {"queued": 3, "dead": 1}
    assert dict((await brought(sf, file)).outcomes) == {"known": 4}
    await drain(sf)
    sf.clock.advance("30d")
    await store_of(sf).write(upkeep.prune, PruneRequest())
    assert {job.state for job in await sf.jobs()} == {"dead"}, "the completed ones are pruned, with their keys"
    assert dict((await brought(sf, file)).outcomes) == {"known": 4}
    assert len(await sf.jobs()) == 1


async def test_a_job_that_died_here_and_was_purged_comes_back_from_a_file_of_letters(sf, tmp_path):
    """That it was imported once keeps no letter out: the file may be all that is left of it."""
    sf.queue("mail", attempts=1)
    sf.handler("mail")(lambda _job: {"success": False, "error": "no"})
    await brought(sf, lines(tmp_path / "q", [event(1)]))
    await drain(sf)
    await sf.dead_letters.export(tmp_path / "letters", by="ann")
    await sf.dead_letters.purge({}, by="ann", reason="test", confirm=1)
    assert dict((await brought(sf, str(tmp_path / "q"))).outcomes) == {"known": 1}
    as_letter = await brought(sf, lines(tmp_path / "q", [event(1, status="dead", attempts=1)]))
    assert dict(as_letter.outcomes) == {"known": 1}
    back = await sf.dead_letters.import_(tmp_path / "letters", by="ann", reason="test")
    assert back["imported"] == 1


async def test_another_name_for_the_source_brings_every_record_again(sf, tmp_path):
    file = lines(tmp_path / "q", [event(1)])
    await brought(sf, file)
    assert dict((await brought(sf, file, source="second try")).outcomes) == {"queued": 1}


async def test_what_was_being_worked_on_becomes_a_letter_and_does_not_run(sf, tmp_path):
    ran = []
    sf.handler("mail")(lambda job: ran.append(job.id))
    report = await brought(sf, lines(tmp_path / "q", [event(1, status="processing", attempts=2, last_error="slow")]))
    assert dict(report.outcomes) == {"in_doubt": 1}
    await drain(sf)
    job = (await by_payload(sf))[1]
    assert (job.state, job.attempts, job.first_seen_at, ran) == ("dead", 2, LONG_AGO, [])
    assert job.failure is not None
    assert (job.failure.reason_code, job.failure.landed) == ("unknown_commit_state", "maybe")
    assert "slow" in job.failure.message
    assert job.triage is not None
    assert (job.triage.replay_status, job.triage.rule) == ("pending_review", "import")


async def test_a_record_that_was_tried_runs_again_with_its_attempts_and_says_that_it_may_be_done_twice(sf, tmp_path):
    sf.queue("mail", attempts=3)

    @sf.handler("mail")
    async def fail(_job):
        raise RuntimeError("again")

    report = await brought(sf, lines(tmp_path / "q", [event(1, status="pending", attempts=2, last_error="boom")]))
    assert dict(report.outcomes) == {"tried": 1}
    job = (await by_payload(sf))[1]
    assert (job.view, job.attempts) == ("retry_pending", 2)
    assert [(line.attempt, line.possible_duplicate, line.message) for line in job.history] == [(2, True, "boom")]
    await drain(sf)
    job = (await by_payload(sf))[1]
    assert (job.state, job.attempts, len(job.history)) == ("dead", 3, 2), "its attempts count here too"


@pytest.mark.parametrize("why", ["manual", "http", "asked"])
async def test_a_record_that_was_tried_and_must_not_be_repeated_becomes_a_letter(sf, tmp_path, why):
    record, options = event(1, status="pending", attempts=1, last_error="boom"), {}
    if why == "manual":
        sf.handler("mail", replay="manual")(lambda _job: None)
    elif why == "http":
        record |= {"handler": "http", "payload": {"method": "POST", "url": "https://example.org/", "body": {"n": 1}}}
    else:
        options = {"tried_are_letters": True}
    report = await brought(sf, lines(tmp_path / "q", [record]), **options)
    assert dict(report.outcomes) == {"in_doubt": 1}
    [job] = await sf.jobs()
    assert job.state == "dead"
    assert job.failure is not None
    assert (job.failure.reason_code, job.failure.landed) == ("unknown_commit_state", "maybe")


async def test_an_http_record_with_a_key_is_repeated(sf, tmp_path):
    request = {"method": "POST", "url": "https://example.org/", "body": {"n": 1}}
    record = event(1, status="pending", attempts=1, handler="http", payload=request, idempotency_key="k")
    assert dict((await brought(sf, lines(tmp_path / "q", [record]))).outcomes) == {"tried": 1}


async def test_a_bad_line_is_counted_named_and_kept_and_the_rest_goes_on(sf, tmp_path):
    bad = ["{not json", "[1]", '{"queue": "mail", "payload": {"a": 1, "a": 2}}', {"payload": {"n": 9}}]
    inside = event(3, handler="http", payload={"method": "GET", "url": "http://127.0.0.1/"})
    file = lines(tmp_path / "q", [event(1), *bad, "", event(2, status="odd"), inside, event(4)])
    report = await brought(sf, file)
    assert (dict(report.outcomes), report.records) == ({"queued": 2, "rejected": 6}, 8)
    assert [name for name, _ in report.first_rejected] == [f"line {n}" for n in (2, 3, 4, 5, 7, 8)]
    assert report.rejects_file == f"{file}.rejects.jsonl"
    mode, written = read_rejects(report.rejects_file)
    assert (mode, [each["number"] for each in written]) == (0o600, [2, 3, 4, 5, 7, 8])
    assert (written[0]["record"], written[0]["place"]) == ("{not json", "line 2")
    assert written[0]["why"].startswith("it is not JSON")


async def test_a_line_that_is_too_long_is_rejected_and_the_next_one_is_read(sf, tmp_path, monkeypatch):
    monkeypatch.setattr("standfast.wings.imports.jsonl_reader.LONGEST_LINE", 200)
    report = await brought(sf, lines(tmp_path / "q", [event(1, last_error="x" * 500), event(2)]))
    assert dict(report.outcomes) == {"queued": 1, "rejected": 1}


async def test_a_finished_record_is_left_out_unless_it_is_asked_for(sf, tmp_path):
    file = lines(tmp_path / "q", [event(1, status="completed", idempotency_key="k1", result={"sent": True})])
    assert dict((await brought(sf, file)).outcomes) == {"finished": 1}
    assert len(await sf.jobs()) == 0
    assert dict((await brought(sf, file, finished=True)).outcomes) == {"completed": 1}
    job = (await by_payload(sf))[1]
    assert (job.state, job.result, job.first_seen_at) == ("completed", {"sent": True}, LONG_AGO)
    assert (await sf.enqueue("mail", {"n": 1}, idempotency_key="k1")).outcome == "duplicate"
    assert dict((await brought(sf, file, finished=True)).outcomes) == {"known": 1}


async def test_a_key_that_a_job_here_has_is_not_brought_twice(sf, tmp_path):
    await sf.enqueue("mail", {"n": 1}, idempotency_key="same")
    await sf.enqueue("mail", {"other": 1}, idempotency_key="taken")
    records = [event(1, idempotency_key="same"), event(2, idempotency_key="taken")]
    report = await brought(sf, lines(tmp_path / "q", records))
    assert dict(report.outcomes) == {"duplicate": 1, "rejected": 1}
    [(name, why)] = report.first_rejected
    assert (name, "belongs to job" in why) == ("line 2", True)
    assert len(await sf.jobs()) == 2


async def test_two_sources_with_the_same_ids_are_told_apart(sf, tmp_path):
    """Nothing is lost quietly because another queue numbered its events in the same way."""
    await brought(sf, lines(tmp_path / "one", [event(1)]))
    other = lines(tmp_path / "two", [event(1, payload={"n": 77})])
    report = await brought(sf, other)
    assert "--source NAME" in report.first_rejected[0].why
    assert dict((await brought(sf, other, source="two")).outcomes) == {"queued": 1}


async def test_lines_of_a_log_that_change_each_other_are_all_rejected(sf, tmp_path):
    """The first line alone would have the work done again that a later line says is done."""
    records = [event(1, status="pending"), event(2), event(1, status="done"), event(2)]
    report = await brought(sf, lines(tmp_path / "q", records))
    assert dict(report.outcomes) == {"queued": 1, "known": 1, "rejected": 2}
    assert [name for name, _ in report.first_rejected] == ["line 1", "line 3"]
    assert [*await by_payload(sf)] == [2]


async def test_a_dry_run_counts_the_same_and_stores_nothing(sf, tmp_path):
    records = [event(1), event(2, status="processing"), event(3, status="done"), event(4, attempts=1), "{"]
    file = lines(tmp_path / "q", records)
    foreseen = await brought(sf, file, dry_run=True)
    assert len(await sf.jobs()) == 0
    assert (foreseen.rejects_file, (tmp_path / "q.rejects.jsonl").exists()) == (None, False)
    done = await brought(sf, file)
    assert foreseen.outcomes == done.outcomes
    assert foreseen.queues == done.queues
    again = await brought(sf, file, dry_run=True)
    assert dict(again.outcomes) == {"known": 3, "finished": 1, "rejected": 1}


@pytest.mark.parametrize("first", ["queued", "dead"])
@pytest.mark.parametrize("second", ["queued", "tried", "dead", "processing", "completed"])
async def test_another_payload_under_a_known_id_is_rejected_whatever_it_becomes(sf, tmp_path, first, second):
    fields = {"tried": {"state": "pending", "attempts": 1}}
    own = [{"state": first}, fields.get(second, {"state": second})]
    one, two = (event(1, payload={"n": n}, **given) for n, given in enumerate(own, start=1))
    await brought(sf, lines(tmp_path / "one", [one]))
    file = lines(tmp_path / "two", [two])
    foreseen = await brought(sf, file, finished=True, dry_run=True)
    report = await brought(sf, file, finished=True)
    assert dict(foreseen.outcomes) == dict(report.outcomes) == {"rejected": 1}
    assert "--source NAME" in report.first_rejected[0].why
    assert report.rejects_file is not None
    assert [json.loads(each["record"]) for each in read_rejects(report.rejects_file)[1]] == [two]
    assert [*await by_payload(sf)] == [1]


async def test_records_of_one_run_that_collide_are_foreseen_as_they_are_imported(sf, tmp_path):
    """Standard input is not read twice: nothing finds beforehand that two of its lines have one id."""
    dead, tried = {"state": "dead", "attempts": 2}, {"state": "pending", "attempts": 1}
    records = [
        *(event(1, **tried), event(1, **tried)),
        *(event(2, **dead), event(2, **dead), event(2, **dead, payload={"n": 22})),
        *(event(3), event(3, payload={"n": 33})),
        *(event(4, **dead), event(4, **tried)),
        *(event(n, idempotency_key="same", payload={"n": 5}) for n in (5, 6)),
        *(event(n, idempotency_key="other") for n in (7, 8)),
        *(
            event(n, idempotency_key="letter", payload={"n": 9}, **given)
            for n, given in ((9, dead), (10, {}), (11, dead))
        ),
    ]
    source = msgspec.structs.replace(jsonl(lines(tmp_path / "q", records)), may_contradict=False)
    found = [
        await sf.imports.bring_in(source, known_shapes.JSONL, ImportOptions(dry_run=dry_run), by="ann")
        for dry_run in (True, False)
    ]
    assert dict(found[0].outcomes) == dict(found[1].outcomes)
    assert found[0].first_rejected == found[1].first_rejected
    assert (found[1].outcomes["rejected"], found[1].outcomes["known"], found[1].outcomes["duplicate"]) == (3, 3, 2)


async def test_the_tables_of_a_queue_come_in_with_letters_and_reasons(sf, tmp_path):
    rows = [queued_event("a"), queued_event("b", "processing", attempts=1), queued_event("both", attempts=5)]
    dead = [dead_event("c", payload='{"n": 3}'), dead_event("both")]
    file = tables(tmp_path / "old.db", queued=[*rows, queued_event("bad", payload="{")], dead=dead)
    reports = [await sf.imports.bring_in(source, profile, by="ann") for source, profile in sqlite(file)]
    found = [dict(report.outcomes) for report in reports]
    assert found == [{"dead": 2}, {"queued": 1, "in_doubt": 1, "known": 1, "rejected": 1}, {}]
    assert reports[1].first_rejected[0].name == "row 4 (bad)"
    [letter] = [job for job in await sf.dead_letters.list() if job.payload == {"n": 3}]
    assert letter.failure is not None
    assert (letter.failure.reason_code, letter.failure.message) == ("max_attempts", "Connection refused")
    assert (letter.attempts, letter.first_seen_at, letter.finished_at) == (
        5,
        LONG_AGO,
        datetime.fromtimestamp(SEEN + 600, UTC),
    )


async def test_events_of_a_thread_run_one_at_a_time_and_in_their_order(sf, tmp_path):
    ran = []
    sf.handler("events")(lambda job: ran.append(job.payload["n"]))
    rows = [
        {
            "id": n,
            "trigger": "mention",
            "thread_key": "pr#1",
            "priority": 50,
            "state": "pending",
            "payload": f'{{"n": {n}}}',
        }
        for n in (1, 2, 3)
    ]
    file = tables(tmp_path / "old.db", events=rows)
    [(source, profile)] = sqlite(file, ["events"])
    assert dict((await sf.imports.bring_in(source, profile, by="ann")).outcomes) == {"queued": 3}
    assert {job.thread_key for job in (await by_payload(sf)).values()} == {"pr#1"}
    await drain(sf)
    assert ran == [1, 2, 3]


async def test_op_records_come_in_with_their_sessions_and_histories(sf, tmp_path):
    place = tmp_path / "operations"
    op(place, "op_1", queued=True, queue_reason="deferred_submit", status="failed", originating_session_id="s1")
    op(place, "op_2", status="failed", queued=False, attempts=5, error="gone", error_kind="obsidian_refused")
    op(place, "op_3", status="completed")
    op(place, "op_4", status="running")
    (place / "op_5.json").write_text("{")
    (place / "notes.txt").write_text("not a record")
    report = await sf.imports.bring_in(ops(str(place)), known_shapes.OPS, by="ann")
    assert dict(report.outcomes) == {"queued": 1, "dead": 1, "finished": 1, "in_doubt": 1, "rejected": 1}
    assert (report.first_rejected[0].name, report.rejects_file) == ("op_5.json", f"{place}.rejects.jsonl")
    [first] = await sf.jobs(state="queued")
    assert (first.queue, first.queue_reason, first.session) == ("task_create", "deferred_submit", "s1")
    [dead] = [job for job in await sf.dead_letters.list() if job.attempts == 5]
    assert dead.failure is not None
    assert (dead.failure.error_kind, dead.failure.message) == ("obsidian_refused", "gone")


async def test_a_full_queue_stops_the_import_and_the_next_run_brings_the_rest(sf, tmp_path):
    sf.queue("mail", max_depth=2)
    sf.handler("mail")(lambda _job: None)
    file = lines(tmp_path / "q", [event(n) for n in range(1, 5)])
    with pytest.raises(Backpressure, match="is full"):
        await brought(sf, file)
    assert len(await sf.jobs()) == 2
    await drain(sf)
    assert dict((await brought(sf, file)).outcomes) == {"known": 2, "queued": 2}


async def test_an_import_is_in_the_audit_chain_with_who_ran_it(sf, tmp_path):
    await brought(sf, lines(tmp_path / "q", [event(1, status="dead")]))
    kinds = [(entry["kind"], entry["outcome"], entry["by"]) for entry in await sf.audit.entries(kind="import")]
    assert sorted(kinds) == [("import", "imported", "ann"), ("import", "started", "ann")]


def test_a_file_that_is_none_and_a_table_that_is_missing_are_said_in_one_line(tmp_path):
    (tmp_path / "text").write_text("hello " * 100)
    with pytest.raises(ConfigurationError, match="cannot read"):
        sqlite(str(tmp_path / "text"))
    file = tables(tmp_path / "old.db")
    with pytest.raises(ConfigurationError, match="no table 'evnts'; its tables are: dead_letter_events, events"):
        sqlite(file, ["evnts"])
    with pytest.raises(ConfigurationError, match="there is no file"):
        sqlite(str(tmp_path / "missing.db"))


async def test_a_store_of_standfast_is_no_source(in_file, path):
    await in_file.enqueue("mail")
    with pytest.raises(ConfigurationError, match="is a store of standfast"):
        sqlite(path)


async def test_a_letter_that_standfast_exported_is_sent_to_the_command_for_it(sf, tmp_path):
    sf.handler("mail")(lambda _job: {"success": False, "error": "no"})
    sf.queue("mail", attempts=1)
    await sf.enqueue("mail", {"n": 1})
    await drain(sf)
    await sf.dead_letters.export(tmp_path / "letters.jsonl", by="ann")
    report = await brought(sf, str(tmp_path / "letters.jsonl"))
    assert "standfast dead import" in report.first_rejected[0].why


async def test_the_smallest_letter_of_the_docs_is_one(sf):
    page = read_page("importing.md")
    [letter] = re.findall(r"```json\n(.*?)\n```", page, re.DOTALL)
    back = await sf.dead_letters.import_(io.BytesIO(letter.encode()), by="ann", reason="test")
    assert back["imported"] == 1
    found = await sf.dead_letters.get(json.loads(letter)["id"])
    assert found.failure is not None
    assert (found.queue, found.failure.reason_code) == ("mail", "timeout")


def test_the_docs_name_every_field_of_a_map():
    page = read_page("importing.md")
    assert [name for name in FIELDS if f"`{name}`" not in page] == []


def read_page(name: str) -> str:
    """Read a page of the docs."""
    return (Path(__file__).parents[2] / "docs" / name).read_text()
