"""dead list, dead show, dead replay."""

import json
import os

import pytest

from standfast import Transient
from standfast.wings.letters import commands as dead_commands
from tests.doors.processes import on_terminal, standfast
from tests.doors.stages import HOSTILE, job_of, outage, refuse, told, unsure, work
from tests.doors.test_cli_terminal import ACTING, SEQUENCE


def silent(_job):
    raise Transient


@pytest.fixture
def letters(cli):
    """Let three jobs die, each its own way; give their ids by queue."""
    ids = {queue: job_of(cli, queue, json.dumps({queue: HOSTILE})) for queue in ("refused", "away", "unclear")}
    work(refused=refuse, away=outage, unclear=unsure)
    return ids


class TestList:
    def test_lists_the_newest_first(self, cli, letters):
        lines = cli("dead", "list").stdout.splitlines()
        assert [line.split()[0] for line in lines[1:]] == list(letters.values())[::-1]

    @pytest.mark.parametrize(
        ("options", "queues"),
        [
            ("--queue away", {"away"}),
            ("--reason-code handler_refused", {"refused"}),
            ("--reason-code max_scheduling_retries", {"away", "unclear"}),
            ("--reason-code unknown_commit_state", {"unclear"}),
            ("--cause unknown_commit_state", {"unclear"}),
            ("--class permanent", {"refused"}),
            ("--landed maybe", {"unclear"}),
            ("--replay-status pending_review", {"refused", "away", "unclear"}),
            ("--replay-status quarantined", set()),
            ("--older-than 1h", set()),
            ("--older-than 0s --queue refused", {"refused"}),
        ],
    )
    @pytest.mark.usefixtures("letters")
    def test_filters(self, cli, options, queues):
        code, page = told(cli, "dead", "list", *options.split())
        assert (code, {letter["queue"] for letter in page["items"]}) == (0, queues)

    @pytest.mark.usefixtures("letters")
    def test_pages_go_on_with_the_cursor(self, cli):
        _, first = told(cli, "dead", "list", "--limit", "2")
        _, rest = told(cli, "dead", "list", "--cursor", str(first["next_cursor"]))
        seen = [letter["queue"] for letter in first["items"] + rest["items"]]
        assert (seen, rest["next_cursor"]) == (["unclear", "away", "refused"], None)

    def test_other_jobs_are_no_letters(self, cli):
        job_of(cli, "mail")
        assert told(cli, "dead", "list") == (0, {"items": [], "next_cursor": None})

    @pytest.mark.parametrize("wrong", ["--class bad", "--landed yes", "--replay-status lost", "--older-than soon"])
    def test_a_wrong_filter_exits_2(self, cli, wrong):
        assert cli("dead", "list", *wrong.split()).exit_code == 2


class TestShow:
    def test_shows_the_whole_letter(self, cli):
        job = job_of(cli, "refused", json.dumps({"text": "x" * 5000}))
        work(refused=refuse)
        shown = cli("dead", "show", job)
        assert shown.exit_code == 0
        assert "x" * 5000 in shown.stdout
        for words in ("handler_refused", "read its message before replaying", "manual_review", "History", job):
            assert words in shown.stdout
        assert f"standfast dead replay {job}" in shown.stdout

    def test_json_is_the_job(self, cli, letters):
        code, letter = told(cli, "dead", "show", letters["unclear"])
        assert (code, letter["failure"]["landed"], letter["triage"]["rule"]) == (0, "maybe", "built-in")
        assert len(letter["history"]) == 1

    def test_what_is_no_letter_exits_1_and_what_is_unknown_3(self, cli):
        job = job_of(cli, "mail")
        shown = cli("dead", "show", job)
        assert (shown.exit_code, shown.stdout) == (1, "")
        assert (
            shown.stderr == f"standfast: job {job} is not a letter: it is queued; look at it with: standfast status\n"
        )
        assert cli("dead", "show", "nope").exit_code == 3

    @pytest.mark.parametrize("form", [[], ["--json"]])
    @pytest.mark.parametrize("command", ["show", "list"])
    def test_text_from_outside_never_acts(self, letters, command, form):
        arguments = ["dead", command, *([letters["refused"]] if command == "show" else []), *form]
        piped = standfast(*arguments).stdout.decode()
        seen = SEQUENCE.sub("", on_terminal(*arguments).replace("\r\n", "\n"))
        assert [ACTING.findall(text) for text in (piped, seen)] == [[], []]
        assert letters["refused"] in seen

    def test_a_narrow_terminal_gets_the_note_below(self, letters):
        seen = SEQUENCE.sub("", on_terminal("dead", "list", COLUMNS="80").replace("\r\n", "\n"))
        assert ACTING.findall(seen) == []
        lines = seen.splitlines()
        row = next(at for at, line in enumerate(lines) if letters["away"] in line)
        assert lines[row + 1].startswith("    ")
        assert "gone" in lines[row + 1]

    def test_an_error_that_says_little_is_told_with_its_type(self, cli):
        keyed, mute = job_of(cli, "keyed", "{}"), job_of(cli, "mute")
        work(keyed=lambda job: job.payload["x"], mute=silent)
        lines = {line.split()[0]: line for line in cli("dead", "list").stdout.splitlines()}
        assert "max_attempts: KeyError: 'x'" in lines[keyed]
        assert "max_attempts: Transient" in lines[mute]


class TestReplay:
    @pytest.mark.usefixtures("every_store")
    def test_the_audit_chain_is_told_only_where_a_log_was_asked_for_or_nothing_else_has_it(self, letters):
        told = standfast("dead", "replay", letters["away"]).stderr
        on_server = "STANDFAST_URL" in os.environ
        assert (b"audit head" in told) == on_server, "no file has it there"
        assert "audit head" not in on_terminal("dead", "replay", letters["unclear"])
        assert b"audit head" in standfast("dead", "replay", letters["refused"], STANDFAST_LOG="json").stderr

    def test_puts_a_letter_back_to_work(self, cli, letters):
        job = letters["refused"]
        done = cli("dead", "replay", job, "--reason", "customer is there now")
        assert (done.exit_code, done.stdout) == (0, f"{job} replayed\n")
        assert told(cli, "status", job)[1]["state"] == "queued"
        work(refused=lambda _job: "sent")
        assert told(cli, "status", job)[1]["result"] == "sent"

    def test_json_names_the_rule(self, cli, letters):
        code, answer = told(cli, "dead", "replay", letters["away"])
        assert (code, answer["id"], answer["outcome"], answer["rule"]) == (0, letters["away"], "replayed", "built-in")

    def test_what_is_no_letter_exits_1_and_what_is_unknown_3(self, cli, letters):
        assert cli("dead", "replay", "nope").exit_code == 3
        cli("dead", "replay", letters["away"])
        again = cli("dead", "replay", letters["away"])
        assert (again.exit_code, again.stdout) == (1, "")

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            ({"outcome": "denied", "rule": "r2", "why": "not here"}, "x denied by rule r2: not here\n"),
            (
                {"outcome": "approval_required", "approval": "a1", "rule": "r1"},
                "x approval_required, waiting for a1 by rule r1\n",
            ),
        ],
    )
    def test_a_refusal_by_policy_exits_4(self, cli, monkeypatch, answer, said):
        monkeypatch.setattr(dead_commands, "look_into", lambda *_: ("x", answer))
        refused = cli("dead", "replay", "x")
        assert (refused.exit_code, refused.stdout) == (4, said)
