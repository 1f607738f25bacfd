"""consent list, grant, deny, revoke: as the library has them, as the operating-system user."""

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
