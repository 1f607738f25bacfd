"""policy show, policy check, policy test, policy drill."""

import logging
from pathlib import Path

import pytest

from tests.doors.stages import job_of, refuse, told, work

DENY = "version: v1\nreplay_rules:\n  - match: {queue: refused}\n    decision: deny\n    why: not here\n"
CASES = """cases:
  - name: refused ones stay
    letter: {queue: refused}
    expect: {decision: deny}
  - name: others go
    letter: {queue: other}
    expect: {decision: allow}
"""


@pytest.fixture
def letter(cli):
    """Let a job die; give its id."""
    job = job_of(cli, "refused")
    work(refused=refuse)
    return job


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "candidate.yaml"
    path.write_text(DENY)
    return path


@pytest.fixture
def quiet():
    """Put the log's level back that a drill changes."""
    log = logging.getLogger("standfast")
    before = log.level
    yield
    log.setLevel(before)


class TestShow:
    @pytest.mark.usefixtures("letter")
    def test_shows_the_built_in_one_where_nobody_wrote_any(self, cli):
        assert cli("policy", "show").stdout.split() == ["snapshot", "built-in"]
        assert told(cli, "policy", "show")[1]["text"] is None

    def test_shows_what_is_in_force_and_publishes_nothing_itself(self, cli, letter, file, monkeypatch):
        monkeypatch.setenv("STANDFAST_POLICY", str(file))
        assert "built-in" in cli("policy", "show").stdout, "looking puts nothing in force"
        work(refused=refuse)
        assert cli("dead", "replay", letter, "--reason", "now").exit_code == 4
        shown = cli("policy", "show").stdout
        assert "why: not here" in shown
        assert str(file) in shown

    @pytest.mark.usefixtures("letter")
    def test_says_what_is_wrong(self, cli, file, monkeypatch):
        monkeypatch.setenv("STANDFAST_POLICY", str(file))
        file.write_text("version: v2\n")
        work(refused=refuse)
        assert cli("health").exit_code == 1
        assert "every replay is denied" in cli("policy", "show").stdout

    def test_does_not_make_a_store(self, cli):
        assert cli("policy", "show").exit_code == 3


ASKING = (
    *("jobs", "stats", "health", "dead list", "dead plan", "audit log", "enqueue other"),
    *("status LETTER", "dead show LETTER", "dead replay LETTER"),
)


@pytest.mark.parametrize("text", [DENY, "version: v2\n", None], ids=["a policy", "a broken one", "a missing one"])
def test_a_command_goes_by_what_is_in_force_and_leaves_the_file_it_finds_alone(cli, letter, file, monkeypatch, text):
    monkeypatch.setenv("STANDFAST_POLICY", str(file))
    file.unlink() if text is None else file.write_text(text)
    for command in ASKING:
        cli(*command.replace("LETTER", letter).split())
    shown = told(cli, "policy", "show")[1]
    assert (shown["snapshot"], shown["issue"]) == ("built-in", None)


class TestCheck:
    def test_tells_what_would_change_and_changes_nothing(self, cli, letter, file):
        done = cli("policy", "check", str(file))
        assert done.exit_code == 0
        assert done.stdout.startswith("1 of 1 letter would be treated differently\n")
        assert letter in done.stdout
        code, found = told(cli, "policy", "check", str(file))
        told_ones = [each["before"] for what in ("actions", "decisions") for each in found[what]]
        same = [each for what in ("actions", "decisions") for each in found[what] if each["before"] == each["after"]]
        assert len(done.stdout.splitlines()) == 2 + len(told_ones) - len(same) + len(found["unused"])
        assert same, "only what differs is shown"
        assert (code, found["changed"], found["in_force"]) == (0, 1, "built-in")
        assert "built-in" in cli("policy", "show").stdout

    @pytest.mark.usefixtures("letter")
    def test_the_configured_file_itself_is_not_put_in_force_by_trying_it(self, cli, file, monkeypatch):
        monkeypatch.setenv("STANDFAST_POLICY", str(file))
        assert told(cli, "policy", "check", str(file))[1]["changed"] == 1

    @pytest.mark.usefixtures("letter")
    def test_a_wrong_one_is_refused_with_its_line(self, cli, file):
        file.write_text("version: v1\nreplay_rules:\n  - match: {}\n    decision: maybe\n")
        done = cli("policy", "check", str(file))
        assert done.exit_code == 2
        assert "line 4, column 15: unknown decision 'maybe'" in done.stderr


class TestCases:
    def test_exits_1_if_one_does_not_come_out(self, cli, file, tmp_path):
        cases = tmp_path / "cases.yaml"
        cases.write_text(CASES)
        done = cli("policy", "test", str(cases), "--policy", str(file))
        assert done.exit_code == 1
        assert f"{cases}, line 5: others go: decision: expected allow, got deny (by no replay rule)" in done.stdout
        file.write_text(DENY + "  - match: {}\n    decision: allow\n")
        done = cli("policy", "test", str(cases), "--policy", str(file))
        assert (done.exit_code, done.stdout) == (0, "2 of 2 cases passed\n")
        assert told(cli, "policy", "test", str(cases), "--policy", str(file))[1]["failed"] == 0

    def test_without_a_policy_there_is_nothing_to_ask(self, cli, tmp_path):
        cases = tmp_path / "cases.yaml"
        cases.write_text(CASES)
        assert cli("policy", "test", str(cases)).exit_code == 2


@pytest.mark.usefixtures("quiet")
class TestDrill:
    def test_walks_through_a_denied_replay_and_leaves_nothing(self, cli):
        before = set(Path().iterdir())
        code, found = told(cli, "policy", "drill")
        assert (code, found["passed"]) == (0, True)
        assert [step["what"] for step in found["steps"] if not step["ok"]] == []
        assert "its replay is denied" in [step["what"] for step in found["steps"]]
        assert set(Path().iterdir()) == before

    def test_fails_where_the_configured_policy_cannot_be_read(self, cli, file, monkeypatch):
        monkeypatch.setenv("STANDFAST_POLICY", str(file))
        file.write_text("version: v2\n")
        done = cli("policy", "drill")
        assert done.exit_code == 1
        assert "the drill FAILED" in done.stdout
