"""dead resolve: by the checks of the application that has them, or by a person's word."""

import json

import pytest

from tests.doors.stages import job_of, told, unsure, work

APP = """
from pathlib import Path
from standfast import Effect, Standfast

sf = Standfast()

@sf.handler("unclear", replay="manual", effects=[Effect("ticket", lambda job: Path("ticket").exists())])
def act(job):
    raise NotImplementedError
"""


@pytest.fixture
def letter(cli):
    """Let a job die whose effect may exist; give its id."""
    job_id = job_of(cli, "unclear", "{}")
    work(unclear=unsure)
    return job_id


def test_the_checks_of_the_application_are_asked(cli, letter, here, monkeypatch):
    (here / "checking_app.py").write_text(APP)
    monkeypatch.syspath_prepend(str(here))
    refused = cli("dead", "resolve", "checking_app:sf", letter, "--reason", "looks fine")
    assert (refused.exit_code, "ticket absent" in refused.stderr) == (1, True)
    other = "if nothing more needs to be done, resolve it with result= (--result JSON), and nothing is checked"
    assert f"replay it, and only what is missing runs; or, {other}" in refused.stderr
    (here / "ticket").touch()
    done = cli("dead", "resolve", "checking_app:sf", letter, "--reason", "it is there")
    assert (done.exit_code, done.stdout) == (0, f"{letter} resolved\n")
    _, job = told(cli, "status", letter)
    assert (job["state"], job["warning"]) == ("completed", "post_write_recovery")
    refused, effect = job["effects"]
    assert (refused["name"], refused["verdict"]) == ("ticket", "absent"), "every look is kept"
    assert (effect["name"], effect["verdict"], effect["receipt"], effect["attempt"]) == ("ticket", "verified", None, 1)


def test_a_replay_looks_at_once_where_the_application_is_named(cli, letter, here, monkeypatch):
    (here / "replaying_app.py").write_text(APP)
    monkeypatch.syspath_prepend(str(here))
    (here / "ticket").touch()
    done = cli("dead", "replay", "replaying_app:sf", letter)
    assert (done.exit_code, done.stdout) == (0, f"{letter} resolved\n")


@pytest.mark.parametrize(
    ("command", "wanted"),
    [(["resolve", "--reason", "x"], "ID"), (["replay"], "ID"), (["amend", "--reason", "x"], "ID JSON")],
)
@pytest.mark.parametrize("names", [["app:sf"], ["app:sf", "one", "two", "three"]])
def test_an_application_alone_is_no_letter(cli, command, wanted, names):
    slip = cli("dead", *command, *names)
    assert slip.exit_code == 2
    assert f"dead {command[0]} app:sf {wanted}" in " ".join(slip.stderr.split())


def test_a_result_is_a_person_s_word(cli, letter):
    code, job = told(cli, "dead", "resolve", letter, "--reason", "asked them", "--result", '{"id": 7}')
    assert (code, job["state"], job["result"]) == (0, "completed", {"id": 7})
    assert job["history"][-1]["reason"] == "asked them"


def test_a_letter_that_may_have_landed_says_how_to_end_it(cli, letter):
    shown = cli("dead", "show", letter).stdout
    assert f"standfast dead resolve [app:sf] {letter} --reason" in shown
    cli("dead", "resolve", letter, "--reason", "asked them", "--result", "1")
    assert "completed" in cli("status", letter).stdout


def test_without_the_application_it_says_what_to_do(cli, letter):
    refused = cli("dead", "resolve", letter, "--reason", "x")
    assert refused.exit_code == 2
    for words in ("not registered", "standfast dead resolve app:sf", "--result", "nothing was changed"):
        assert words in refused.stderr


@pytest.mark.parametrize(("options", "code"), [([], 2), (["--reason", "x", "--result", "{"], 2)])
def test_a_slip_changes_nothing(cli, letter, options, code):
    assert cli("dead", "resolve", letter, *options).exit_code == code
    assert json.loads(cli("dead", "show", letter, "--json").stdout)["state"] == "dead"
