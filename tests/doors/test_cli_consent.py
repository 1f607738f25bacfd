"""consent list, grant, deny, revoke: as the library has them, as the operating-system user."""

import json
from pathlib import Path

import pytest

from standfast.spine.accept import user
from tests.doors.conftest import Cli
from tests.doors.stages import job_of, told, work

pytestmark = pytest.mark.usefixtures("every_store")


@pytest.fixture
def waits(cli: Cli) -> str:
    """Have a job of a session wait for a yes."""
    job_id = str(job_of(cli, "pay", "--session", "s"))
    work(consent=True, pay=lambda _job: "paid")
    return job_id


def test_a_yes_is_given_used_listed_and_taken_back(cli: Cli, waits: str) -> None:
    code, found = told(cli, "consent", "list", "s")
    assert (code, found["items"], [each["job_id"] for each in found["asks"]]) == (0, [], [waits])
    assert "Waiting for an answer" in cli("consent", "list").stdout
    code, given = told(cli, "consent", "grant", "s", "pay", "--mode", "timed", "--for", "10m", "--reason", "asked me")
    assert (code, given["handler"], given["mode"], given["by"]) == (0, "pay/pay", "timed", user())
    work(consent=True, pay=lambda _job: "paid")
    assert told(cli, "status", waits)[1]["state"] == "completed"
    assert "asked me" in cli("consent", "list", "s").stdout
    assert told(cli, "consent", "list", "other")[1] == {"items": [], "asks": []}
    assert told(cli, "consent", "revoke", "s", "pay") == (0, {"revoked": 1})
    assert "0 answers of s taken back" in cli("consent", "revoke", "s").stdout


def test_a_no_ends_what_waits_and_a_name_nobody_declared_is_refused(cli: Cli, waits: str) -> None:
    refused = cli("consent", "deny", "s", "pya")
    assert (refused.exit_code, "nothing was granted or denied" in refused.stderr) == (2, True)
    ahead = cli("consent", "grant", "", "later/later")
    assert (ahead.exit_code, "granted (once) to no session" in ahead.stdout) == (0, True)
    assert "no process has declared later/later so far" in ahead.stderr
    assert told(cli, "consent", "deny", "s", "pay", "--reason", "never")[1]["mode"] == "deny"
    assert told(cli, "status", waits)[1]["reason"] == "consent_denied"


def test_one_job_is_answered_by_its_id_and_a_replay_says_that_it_waits(cli: Cli, waits: str) -> None:
    other = str(job_of(cli, "pay", "--session", "s"))
    work(consent=True, pay=lambda _job: "paid")
    refused = cli("dead", "replay", waits)
    assert (refused.exit_code, f"standfast consent grant {waits}" in refused.stdout) == (1, True)
    code, retried = told(cli, "retry", waits)
    assert (code, retried["status"], retried["reason_code"]) == (1, "held", "consent_required")
    planned = cli("dead", "plan")
    assert "wait for a person's consent" in planned.stdout
    assert f"granted (once) to job {waits}" in cli("consent", "grant", waits, "--reason", "seen").stdout
    assert f"denied to job {other}" in cli("consent", "deny", other).stdout
    work(consent=True, pay=lambda _job: "paid")
    assert [told(cli, "status", each)[1]["state"] for each in (waits, other)] == ["completed", "dead"]
    again = cli("consent", "grant", waits)
    assert (again.exit_code, "does not wait for consent" in again.stderr) == (1, True)
    assert cli("consent", "grant", "no-such-job").exit_code == 3


def test_a_job_that_waits_is_named_by_its_operation_id_or_by_the_beginning_of_its_id(cli: Cli, waits: str) -> None:
    assert "see what one would do: standfast status JOB" in cli("consent", "list").stdout
    other = str(job_of(cli, "pay", "--session", "s"))
    work(consent=True, pay=lambda _job: "paid")
    assert f"granted (once) to job {waits}" in cli("consent", "grant", "--operation-id", waits).stdout
    assert f"denied to job {other}" in cli("consent", "deny", other[:-2]).stdout
    assert cli("consent", "grant").exit_code == 2


def test_status_of_a_job_that_waits_for_consent_shows_no_failed_attempt(
    cli: Cli, waits: str, caplog: pytest.LogCaptureFixture
) -> None:
    sheet = cli("status", waits).stdout
    assert "Waits for consent" in sheet
    assert "0 of 1" in sheet
    assert "not begun" in sheet
    assert [(line["attempt"], line["begun"]) for line in told(cli, "status", waits)[1]["history"]] == [(0, False)]
    assert "permanent" not in sheet
    assert "traceback" not in sheet
    job_of(cli, "pay", "--session", "s")
    caplog.clear()
    work(consent=True, pay=lambda _job: "paid")
    [line] = [each for each in caplog.records if "consent_required" in each.getMessage()]
    assert (line.levelname, "nothing of it ran; it waits for consent" in line.getMessage()) == ("WARNING", True)


def test_the_command_that_consents_names_the_store_as_the_one_before_it(cli: Cli, here: Path) -> None:
    """Before, `standfast consent grant ID` led to the store of the directory, whichever the call was made in."""
    (here / "pays.py").write_text(
        "from standfast import Standfast\nsf = Standfast('other.db')\n"
        "sf.handler('pay', consent=True)(lambda job: None)\n"
    )
    called = cli("run", "pays:sf", "pay", "--json")
    job = json.loads(called.stdout)["operation_id"]
    assert f"a person runs: standfast consent grant pays:sf {job}" in json.loads(called.stdout)["hint"]
    for command in ("retry", "dead replay"):
        said = cli(*command.split(), job, "--url", "other.db").stdout
        assert f"standfast consent grant --url other.db {job}" in said
    assert f"standfast consent grant pays:sf {job}" in cli("dead", "replay", "pays:sf", job).stdout
    assert cli("consent", "grant", "pays:sf", job).exit_code == 0
