"""audit log, audit verify, audit export."""

import json

import apsw
import pytest

from tests.doors.stages import HOSTILE, job_of, refuse, told, work


@pytest.fixture
def replayed(cli):
    """Replay two letters; give their ids."""
    ids = [job_of(cli, "refused") for _ in range(2)]
    work(refused=refuse)
    for job in ids:
        assert cli("dead", "replay", job, "--reason", f"because {HOSTILE}").exit_code == 0
    return ids


class TestLog:
    def test_lists_decisions_oldest_first(self, cli, replayed):
        head, *lines = cli("audit", "log").stdout.splitlines()
        assert head.split() == ["SEQ", "AT", "KIND", "JOB", "BY", "WHAT"]
        assert [line.split()[0] for line in lines] == ["1", "2"]
        assert [job in line and "because" in line for job, line in zip(replayed, lines, strict=True)] == [True, True]

    def test_filters_and_pages(self, cli, replayed):
        _, found = told(cli, "audit", "log", "--job", replayed[1])
        assert [(entry["seq"], entry["job"]) for entry in found["items"]] == [(2, replayed[1])]
        assert [entry["seq"] for entry in told(cli, "audit", "log", "--after", "1")[1]["items"]] == [2]
        assert [entry["seq"] for entry in told(cli, "audit", "log", "--limit", "1")[1]["items"]] == [1]
        assert told(cli, "audit", "log", "--kind", "purge") == (0, {"items": [], "next_after": None})
        assert told(cli, "audit", "log", "--limit", "1")[1]["next_after"] == 1
        assert [entry["seq"] for entry in told(cli, "audit", "log", "--last", "1")[1]["items"]] == [2]
        assert "there is more: add --after 1" in cli("audit", "log", "--limit", "1").stderr
        assert "there is more" not in cli("audit", "log", "--after", "1").stderr
        assert cli("audit", "log", "--last", "1", "--after", "1").exit_code == 2
        assert cli("audit", "log", "--kind", "nothing").exit_code == 2

    def test_names_the_queue_that_was_paused_or_resumed(self, cli):
        job_of(cli, "mail")
        assert cli("queue", "pause", "mail").exit_code == 0
        assert cli("queue", "resume", "mail").exit_code == 0
        _, paused, resumed = cli("audit", "log").stdout.splitlines()
        assert ("pause" in paused, "queue=mail" in paused) == (True, True)
        assert ("resume" in resumed, "queue=mail" in resumed) == (True, True)

    @pytest.mark.parametrize(
        ("typed", "meant"),
        [(("redrive",), "dead redrive"), (("audit", "list"), "audit log"), (("pause", "mail"), "queue pause")],
    )
    def test_a_command_that_is_elsewhere_is_named(self, cli, typed, meant):
        refused = cli(*typed)
        assert refused.exit_code == 2
        assert f"Did you mean '{meant}'?" in refused.stderr

    def test_says_that_nothing_was_decided(self, cli):
        job_of(cli, "mail")
        assert cli("audit", "log").stdout == "no decisions\n"
        assert cli("audit", "verify").stdout == "The audit chain is intact: nothing was decided yet\n"


class TestVerify:
    def test_a_whole_chain_exits_0(self, cli, replayed):
        done = cli("audit", "verify")
        assert done.exit_code == 0
        assert done.stdout.startswith(
            f"The audit chain is intact: {len(replayed)} decisions. Copies of its head are kept outside the database "
            "up to link 2. Head: "
        )

    @pytest.mark.usefixtures("replayed")
    def test_a_broken_one_exits_1_and_names_the_link(self, cli, here):
        with apsw.Connection(str(here / "standfast.db")) as beside:
            beside.execute("DELETE FROM audit WHERE seq = 1")
        beside.close()
        code, answer = told(cli, "audit", "verify")
        assert (code, answer["ok"], answer["problem"]["seq"]) == (1, False, 1)
        shown = cli("audit", "verify")
        assert (shown.exit_code, "link 1 is missing" in shown.stdout) == (1, True)

    @pytest.mark.usefixtures("replayed")
    def test_what_was_noted_too_late_exits_2(self, cli, here):
        """The lines outside were removed, or the file is new: what is there fits, and tells of the end only."""
        [anchor] = [path for path in here.iterdir() if path.name.startswith("standfast.db") and "audit" in path.name]
        anchor.unlink()
        code, answer = told(cli, "audit", "verify")
        assert (code, answer["ok"], answer["anchored_from"]) == (2, True, 2)
        shown = cli("audit", "verify")
        assert (shown.exit_code, "begins with link 2" in shown.stdout) == (2, True)

    def test_a_store_that_is_not_there_exits_3(self, cli):
        assert cli("audit", "verify").exit_code == 3


class TestExport:
    def test_writes_one_link_a_line(self, cli, here, replayed):
        code, answer = told(cli, "audit", "export", "chain.jsonl")
        lines = [json.loads(line) for line in (here / "chain.jsonl").read_text(encoding="utf-8").splitlines()]
        assert (code, answer["links"], [line["seq"] for line in lines]) == (0, 3, [0, 1, 2])
        assert [line["entries"][0]["job"] for line in lines[1:]] == replayed
        assert answer["head"] == lines[-1]["hash"]
        again = cli("audit", "export", "chain.jsonl")
        assert (again.exit_code, "nothing was overwritten" in again.stderr) == (2, True)

    @pytest.mark.usefixtures("replayed")
    def test_a_broken_chain_is_written_and_exits_1(self, cli, here):
        with apsw.Connection(str(here / "standfast.db")) as beside:
            beside.execute("DELETE FROM audit WHERE seq = 1")
        beside.close()
        done = cli("audit", "export", "chain.jsonl")
        assert (done.exit_code, "The audit chain is broken" in done.stdout) == (1, True)
        assert (here / "chain.jsonl").exists()
        _, found = told(cli, "doctor")
        assert [each["problem"] for each in found["checks"] if each["name"] == "audit"] != [None]
