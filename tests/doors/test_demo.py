"""standfast demo: its account, its receiver, and the whole of it in processes of its own."""

import json
import os
import signal
import subprocess
from collections import Counter

import msgspec
import pytest

from standfast.demo import books
from standfast.demo import demo_receiver as receiver
from standfast.demo.account import Ending, settle
from standfast.demo.books import Entry
from tests.doors.processes import COMMAND, PATIENCE, eventually, on_terminal, surroundings

DONE = Ending("completed")
MARKED = Ending("completed", repeats_noted=1, may_have_landed=True)
DEAD = Ending("dead")
UNSURE = Ending("dead", may_have_landed=True)

ACCEPTED = ["a", "b", "c", "d"]
ENDINGS = {"a": DONE, "b": MARKED, "c": DONE, "d": DEAD}
BOOKS = [
    Entry("a", "effect", "serves"),
    Entry("b", "effect", "stumbles"),
    Entry("b", "effect", "serves"),
    Entry("c", "effect", "stumbles"),
    Entry("c", "recognised", "serves"),
    Entry("d", "nothing", "refuses"),
]


def processes_under(place):
    """Give the processes that have something to do with a directory, by their environment."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"/proc/{entry.name}/environ", "rb") as file:  # noqa: PTH123
                    if str(place).encode() in file.read():
                        found.append(int(entry.name))
            except OSError:
                continue
    return found


class TestAccount:
    def test_books_that_balance(self):
        account = settle(ACCEPTED, ENDINGS, BOOKS)
        assert account.balances
        assert (account.accepted, account.completed, account.dead, account.lost) == (4, 3, 1, 0)
        assert (account.requests, account.effects, account.recognised, account.doubled) == (6, 4, 1, 1)

    @pytest.mark.parametrize(
        ("endings", "entries", "field"),
        [
            ({key: it for key, it in ENDINGS.items() if key != "d"}, BOOKS, "lost"),  # the queue forgot a job
            (ENDINGS | {"d": Ending("queued")}, BOOKS, "lost"),  # it never ended
            (ENDINGS, BOOKS[1:], "lost"),  # completed, it says, and nothing happened
            (ENDINGS | {"b": DONE}, BOOKS, "doubled_without_record"),
            (ENDINGS, [*BOOKS, BOOKS[1]], "doubled_without_record"),  # thrice, and one repeat was noted
            (ENDINGS, [*BOOKS, BOOKS[0]], "doubled_without_record"),
            (ENDINGS, [*BOOKS, Entry("d", "effect", "stumbles")], "dead_without_record"),
            (ENDINGS, [*BOOKS, Entry("z", "effect", "serves")], "never_asked_for"),
        ],
    )
    def test_each_defect_is_seen(self, endings, entries, field):
        account = settle(ACCEPTED, endings, entries)
        assert getattr(account, field) == 1
        assert not account.balances

    def test_a_dead_job_that_says_it_may_have_landed_is_honest(self):
        entries = [*BOOKS, Entry("d", "effect", "stumbles")]
        assert settle(ACCEPTED, ENDINGS | {"d": UNSURE}, entries).balances

    def test_what_was_lost_is_not_made_up_for_by_what_was_doubled(self):
        account = settle(ACCEPTED, ENDINGS, [*BOOKS[1:], Entry("c", "effect", "serves")])
        assert (account.lost, account.doubled_without_record) == (1, 1)


class TestReceiver:
    def test_every_mood_occurs_and_is_drawn_alike_each_time(self):
        drawn = [receiver.mood(f"k{number}", 1) for number in range(3000)]
        assert drawn == [receiver.mood(f"k{number}", 1) for number in range(3000)]
        counted = Counter(drawn)
        assert counted.keys() == {*receiver.MOODS, "refuses", "serves"}
        assert counted["serves"] > 2000

    def test_a_refused_key_is_refused_every_time(self):
        refused = next(f"k{number}" for number in range(3000) if receiver.mood(f"k{number}", 1) == "refuses")
        assert {receiver.mood(refused, visit) for visit in range(20)} == {"refuses"}

    @pytest.mark.parametrize(("recognises", "second"), [(True, "recognised"), (False, "effect")])
    def test_the_books_tell_a_repeat_that_was_recognised(self, tmp_path, monkeypatch, recognises, second):
        monkeypatch.setattr(receiver, "mood", lambda _key, _visit: "serves")
        ledger = receiver.Ledger(str(tmp_path / "books"))
        for _ in range(2):
            ledger.enter("k", recognises=recognises)
        assert [entry.did for entry in books.read(tmp_path / "books")] == ["effect", second]

    def test_a_line_that_is_being_written_is_not_read_yet(self, tmp_path):
        (tmp_path / "books").write_bytes(books.line(BOOKS[0]) + books.line(BOOKS[1])[:-3])
        assert books.read(tmp_path / "books") == BOOKS[:1]
        assert books.read(tmp_path / "nothing") == []


class TestDemo:
    def test_the_books_balance_after_a_kill(self, here):
        command = [*COMMAND, "demo", "--jobs", "60", "--json", "--url", f"sqlite:///{here}/x.db"]
        done = subprocess.run(command, capture_output=True, check=False, timeout=55, env=surroundings({}))
        assert (done.returncode, done.stderr) == (0, b"")
        report = json.loads(done.stdout)
        account = report["account"]
        assert report["balances"]
        assert account["accepted"] == 60 == account["completed"] + account["dead"]
        assert (account["lost"], account["doubled_without_record"]) == (0, 0)
        assert account["requests"] > 60
        assert list(here.iterdir()) == []
        assert processes_under(here) == []

    def test_a_directory_that_cannot_be_written_exits_2_without_a_traceback(self, cli):
        refused = cli("demo", "--url", "/sys/x.db")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert refused.stderr.startswith("standfast: demo cannot make a directory in /sys: ")
        assert refused.stderr.count("\n") == 1

    def test_interrupting_it_leaves_nothing_behind(self, here):
        command = [*COMMAND, "demo", "--jobs", "1000", "--url", f"{here}/x.db"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, env=surroundings({})) as demo:
            try:
                eventually(lambda: any(here.glob("*/books.jsonl")))
                demo.send_signal(signal.SIGTERM)
                assert demo.wait(PATIENCE) == 130
            finally:
                demo.kill()
            assert demo.stderr is not None
            assert demo.stderr.read() == b""
        assert list(here.iterdir()) == []
        assert processes_under(here) == []

    @pytest.mark.parametrize("balances", [True, False])
    def test_the_verdict_is_the_exit_code(self, cli, monkeypatch, balances):
        from standfast.demo import stage  # noqa: PLC0415 - the command imports it late, too

        account = settle(ACCEPTED, ENDINGS, BOOKS if balances else BOOKS[1:])
        report = stage.Report(balances=account.balances, account=account, killed_with_running=3, seconds=1.5)
        monkeypatch.setattr(stage, "perform", lambda *_: report)
        told = cli("demo")
        assert told.exit_code == (0 if balances else 1)
        sums = "accepted 4 = completed 3 + dead 1, lost 0" if balances else "accepted 4 against completed 3 + dead 1"
        assert sums in told.stdout.splitlines()[-1]
        assert ("do not balance" in told.stdout) is not balances
        written = cli("demo", "--json")
        assert written.exit_code == (0 if balances else 1)
        assert json.loads(written.stdout) == json.loads(msgspec.json.encode(report))

    @pytest.mark.parametrize("url", [":memory:", "postgresql://db/q", "nowhere/at/all/x.db"])
    def test_a_store_without_a_disk_exits_2(self, cli, url):
        assert cli("demo", "--url", url).exit_code == 2

    @pytest.mark.long
    @pytest.mark.usefixtures("here")
    def test_a_terminal_gets_bars_and_a_table(self):
        told = on_terminal("demo", "--jobs", "20")
        assert "accepted" in told
        assert "━" in told
        assert "is killed with SIGKILL" in told
        assert "the books balance: accepted 20" in told
