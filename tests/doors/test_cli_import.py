"""`standfast import` and `enqueue --jsonl`: counts, rejects, exit codes, and a bar only where a person looks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doors.processes import on_terminal
from tests.doors.stages import told
from tests.worker.old_stores import dead_event, event, lines, op, queued_event, tables


@pytest.fixture
def old(tmp_path: Path) -> str:
    """Write a queue with a record of each kind, and a line that is none."""
    records = [event(1), event(2, status="processing"), event(3, status="done"), event(4, attempts=1), "{no"]
    return lines(tmp_path / "old.jsonl", records)


OUTCOMES = {"queued": 1, "in_doubt": 1, "finished": 1, "tried": 1, "rejected": 1}


def test_an_import_tells_what_became_of_each_record_and_names_the_bad_one(cli, old):
    done = cli("import", "jsonl", old)
    assert done.exit_code == 1
    rows = [line.split() for line in done.stdout.splitlines()[:5]]
    assert rows == [
        *(["QUEUE", "OUTCOME", "RECORDS"], ["mail", "finished", "1"], ["mail", "in_doubt", "1"]),
        *(["mail", "queued", "1"], ["mail", "tried", "1"]),
    ]
    assert "may be done twice" in done.stdout
    assert "line 5: it is not JSON" in done.stderr
    assert f"1 record of {old} rejected; all of them are in {old}.rejects.jsonl" in done.stderr
    assert json.loads(Path(f"{old}.rejects.jsonl").read_text())["record"] == "{no"


@pytest.mark.parametrize("command", [["import", "jsonl"], ["import-jsonl"]])
def test_both_names_of_the_command_give_the_same_as_json(cli, old, command):
    code, found = told(cli, *command, old)
    assert (code, found["records"], found["outcomes"]) == (1, 5, OUTCOMES)
    assert found["sources"][0]["queues"]["mail"]["in_doubt"] == 1
    code, found = told(cli, *command, old)
    assert found["outcomes"] == {"known": 3, "finished": 1, "rejected": 1}


def test_a_dry_run_makes_no_store_and_no_file(cli, old, tmp_path):
    code, found = told(cli, "import", "jsonl", old, "--dry-run", "--url", str(tmp_path / "none.db"))
    assert (code, found["outcomes"], found["dry_run"]) == (1, OUTCOMES, True)
    assert {each.name for each in tmp_path.iterdir()} >= {"old.jsonl"}
    assert not (tmp_path / "none.db").exists()
    assert not Path(f"{old}.rejects.jsonl").exists()


def test_a_map_a_queue_and_a_state_are_taken_from_the_command_line(cli, tmp_path):
    file = lines(tmp_path / "q", [{"uid": "u1", "body": {"n": 1}, "how": "parked"}])
    given = ["--map", "id=uid", "--map", "payload=body", "--map", "state=how", "--queue", "mail"]
    code, found = told(cli, "import", "jsonl", file, *given, "--state", "parked=dead")
    assert (code, found["outcomes"]) == (0, {"dead": 1})
    [letter] = told(cli, "dead", "list")[1]["items"]
    assert (letter["queue"], letter["payload"]) == ("mail", {"n": 1})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--map", "paylod=x"], "did you mean 'payload'?"),
        (["--map", "payload"], "is not name=value"),
        (["--map", "payload=a..b"], "is not a path"),
        (["--state", "odd=queud"], "did you mean 'queued'?"),
        (["--tired", "dead"], "--tried"),
    ],
)
def test_a_slip_is_answered_in_one_line_before_anything_is_read(cli, old, given, words):
    done = cli("import", "jsonl", old, *given)
    assert (done.exit_code, words in done.stderr.splitlines()[-1]) == (2, True)
    assert not Path(f"{old}.rejects.jsonl").exists()


def test_tables_and_op_records_are_imported(cli, tmp_path):
    file = tables(tmp_path / "old.db", queued=[queued_event("a")], dead=[dead_event("b")])
    code, found = told(cli, "import", "sqlite", file)
    assert (code, found["outcomes"], len(found["sources"])) == (0, {"dead": 1, "queued": 1}, 3)
    code, found = told(cli, "import", "sqlite", file, "--table", "queued_events")
    assert (code, found["outcomes"]) == (0, {"known": 1})
    op(tmp_path / "ops", "op_1", status="running")
    code, found = told(cli, "import", "ops", str(tmp_path / "ops"))
    assert (code, found["outcomes"]) == (0, {"in_doubt": 1})


def test_a_dump_of_redis_is_imported_and_a_server_that_is_away_is_said_in_one_line(cli, tmp_path):
    letter = {"job_id": "job_1", "topic": "t", "reason_code": "timeout", "attempts": 3}
    code, found = told(cli, "import", "redis", "--file", lines(tmp_path / "dump", [letter]))
    assert (code, found["outcomes"]) == (0, {"dead": 1})
    away = cli("import", "redis", "--redis-url", "redis://127.0.0.1:1/0")
    assert (away.exit_code, len(away.stderr.splitlines())) == (2, 1)


def test_records_come_from_standard_input(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = cli("import", "jsonl", "-", "--json", stdin=f"{json.dumps(event(1))}\n{{\n".encode())
    assert (done.exit_code, json.loads(done.stdout)["outcomes"]) == (1, {"queued": 1, "rejected": 1})
    assert (tmp_path / "stdin.rejects.jsonl").exists()


def test_a_bar_shows_how_far_an_import_is_on_a_terminal_only(cli, tmp_path):
    file = lines(tmp_path / "q", [event(n) for n in range(450)])
    url = str(tmp_path / "shown.db")
    shown = on_terminal("import", "jsonl", file, "--url", url)
    assert "imported" in shown
    assert "/450" in shown
    assert cli("import", "jsonl", file).stderr == ""


# --- enqueue --jsonl


def line(number: int, **more: Any) -> dict[str, Any]:
    """Give a job as POST /jobs takes it."""
    return {"queue": "mail", "payload": {"n": number}, **more}


def test_each_line_is_a_job_and_a_bad_one_keeps_no_other_out(cli, tmp_path):
    bad = ["{", line(2, prority=1), {"payload": 1}, line(3, at="2001-01-01T00:00:00")]
    file = lines(tmp_path / "jobs", [line(1, idempotency_key="k"), *bad, line(1, idempotency_key="k"), line(9)])
    done = cli("enqueue", "--jsonl", file)
    assert (done.exit_code, done.stdout) == (1, "7 lines: 2 accepted, 1 duplicate, 4 refused\n")
    assert [each.partition(":")[0] for each in done.stderr.splitlines()[:4]] == [f"line {n}" for n in (2, 3, 4, 5)]
    assert len(Path(f"{file}.rejects.jsonl").read_text().splitlines()) == 4


def test_a_queue_before_the_lines_is_that_of_lines_that_name_none(cli, tmp_path):
    file = lines(tmp_path / "jobs", [{"payload": 1}, {"queue": "own", "payload": 2}])
    code, found = told(cli, "enqueue", "mail", "--jsonl", file)
    assert (code, found) == (0, {"lines": 2, "outcomes": {"accepted": 2}, "rejects_file": None})
    assert sorted(job["queue"] for job in told(cli, "jobs")[1]["items"]) == ["mail", "own"]


@pytest.mark.parametrize("given", [["mail", "{}"], ["mail", "--priority", "3"]])
def test_payloads_and_options_stand_in_the_lines(cli, tmp_path, given):
    done = cli("enqueue", *given, "--jsonl", lines(tmp_path / "jobs", [line(1)]))
    assert (done.exit_code, "from the lines" in done.stderr) == (2, True)


def test_enqueue_without_a_queue_says_so(cli):
    done = cli("enqueue")
    assert (done.exit_code, "QUEUE" in done.stderr) == (2, True)
