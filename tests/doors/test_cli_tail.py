"""tail: notices as they come."""

import json
import signal
import subprocess
import threading
from datetime import UTC, datetime

import pytest

from standfast.wings.notices.commands import _tell_person, _tell_program
from standfast.wings.notices.words import Notice
from tests.doors.processes import COMMAND, PATIENCE, eventually, has_open, on_terminal, standfast, surroundings
from tests.doors.stages import job_of, refuse, work
from tests.doors.test_cli_terminal import SEQUENCE
from tests.postgres import fresh_schema, in_schema
from tests.warm import Warm

pytestmark = pytest.mark.usefixtures("every_store")


def lines(cli, *options):
    done = cli("tail", "--json", *options)
    assert done.exit_code == 0
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_tells_what_happened_in_order(cli):
    job = job_of(cli, "mail")
    work(mail=refuse)
    seen = lines(cli, "--after", "0", "--limit", "3")
    assert [(notice["kind"], notice["job"], notice["queue"]) for notice in seen] == [
        ("enqueued", job, "mail"),
        ("claimed", job, "mail"),
        ("dead_letter", job, "mail"),
    ]
    assert seen[0].keys() == {"seq", "kind", "at", "job", "queue", "data"}


def test_resumes_behind_a_number(cli):
    jobs = [job_of(cli, "mail") for _ in range(3)]
    first, *_ = whole = lines(cli, "--after", "0", "--limit", "3")
    rest = lines(cli, "--after", str(first["seq"]), "--limit", "2")
    assert [notice["seq"] for notice in rest] == [notice["seq"] for notice in whole[1:]]
    assert [notice["job"] for notice in rest] == jobs[1:]


def test_filters_by_queue_and_kind(cli):
    job_of(cli, "mail")
    sms = job_of(cli, "sms")
    cli("cancel", sms)
    assert [it["job"] for it in lines(cli, "--after", "0", "--queue", "sms", "--limit", "1")] == [sms]
    [cancelled] = lines(cli, "--after", "0", "--kind", "cancelled", "--kind", "held", "--limit", "1")
    assert (cancelled["job"], cancelled["kind"]) == (sms, "cancelled")
    [again] = lines(cli, "--after", "0", "--kinds", "held, cancelled", "--limit", "1")
    assert again["seq"] == cancelled["seq"]


def test_an_unknown_kind_exits_2(cli):
    cli("migrate")
    assert cli("tail", "--kind", "gossip").exit_code == 2
    assert cli("tail", "--kinds", "held,gossip").exit_code == 2


def test_a_person_reads_one_line_each(cli):
    job = job_of(cli, "mail")
    told = cli("tail", "--after", "0", "--limit", "1").stdout
    at, kind, queue, of, seq = told.split()
    assert (at[-1], kind, queue, of, seq.isdigit()) == ("Z", "enqueued", "mail", job, True)
    seen = on_terminal("tail", "--after", "0", "--limit", "1")
    assert "\x1b[36menqueued" in seen
    assert SEQUENCE.sub("", seen).split() == told.split()


@pytest.mark.parametrize("every_store", ["file"], indirect=True)  # an open file shows from outside
def test_follows_other_processes_until_interrupted(here):
    standfast("migrate")
    command = [*COMMAND, "tail", "--json"]
    with Warm(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=surroundings({})) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        eventually(lambda: has_open(tail.pid, here / "standfast.db"))
        heard = threading.Event()
        threading.Thread(target=_enqueue_until, args=(heard,), daemon=True).start()
        notice = json.loads(tail.stdout.readline())
        heard.set()
        tail.send_signal(signal.SIGINT)
        assert tail.wait(PATIENCE) == 130
        assert tail.stderr.read() == b""
    assert (notice["kind"], notice["queue"]) == ("enqueued", "mail")


@pytest.mark.parametrize("every_store", ["file"], indirect=True)
@pytest.mark.parametrize("tell", [_tell_person, _tell_program])
def test_what_others_wrote_does_nothing_to_a_terminal(capsys, tell):
    """Names are checked where they come in; whatever came in another way is told as text all the same."""
    evil = "\x1b]0;evil\x07\u202e"
    tell(Notice(1, "schedule_added", datetime.now(UTC), None, evil, {"schedule": evil}))
    assert capsys.readouterr().out.rstrip("\n").isprintable()


@pytest.mark.long  # a server is stopped and started
@pytest.mark.parametrize("every_store", ["file"], indirect=True)
def test_a_store_that_goes_away_is_waited_for(own_server):
    url = in_schema(own_server.url, fresh_schema())
    standfast("migrate", "--url", url)
    command = [*COMMAND, "tail", "--json", "--after", "0", "--url", url]
    with Warm(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=surroundings({})) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        standfast("enqueue", "mail", "--url", url)
        first = json.loads(tail.stdout.readline())
        own_server.stop("immediate")
        assert b"the store is away" in tail.stderr.readline()
        own_server.start()
        assert b"the store is back" in tail.stderr.readline()
        standfast("enqueue", "mail", "--url", url)
        second = json.loads(tail.stdout.readline())
        tail.send_signal(signal.SIGINT)
        assert tail.wait(PATIENCE) == 130
    assert first["kind"] == second["kind"] == "enqueued"
    assert first["seq"] < second["seq"]


def _enqueue_until(heard):
    """Enqueue until it is heard: an open store does not tell yet where its journal was read from."""
    while not heard.is_set():
        standfast("enqueue", "mail")
