"""backup and restore."""

import pytest

from tests.doors.stages import job_of, told, work

pytestmark = pytest.mark.usefixtures("jobs")


@pytest.fixture
def jobs(cli):
    """Fill the store: one job is done, one waits."""
    done, waits = job_of(cli, "mail", "1", "--key", "k"), job_of(cli, "sms")
    work(mail=lambda _job: "sent")
    return {"done": done, "waits": waits}


def states(cli, jobs, url):
    return {name: told(cli, "status", job, "--url", url)[1]["state"] for name, job in jobs.items()}


def test_what_waited_comes_back_held_and_what_was_done_stays_so(cli, jobs):
    saved = cli("backup", "b.db")
    assert (saved.exit_code, saved.stdout) == (0, "backed up to b.db: 2 jobs, 1 key\n")
    restored = cli("restore", "b.db", "--url", "new.db")
    held = "restored to new.db: 2 jobs (1 held: look with standfast dead list), 1 key\n"
    assert (restored.exit_code, restored.stdout) == (0, held)
    assert states(cli, jobs, "new.db") == {"done": "completed", "waits": "held"}
    assert states(cli, jobs, "standfast.db") == {"done": "completed", "waits": "queued"}


def test_with_run_it_waits_again(cli, jobs):
    cli("backup", "b.db")
    code, answer = told(cli, "restore", "b.db", "--run", "--url", "new.db")
    assert (code, answer["path"], answer["jobs"], answer["held"]) == (0, "new.db", 2, 0)
    assert states(cli, jobs, "new.db") == {"done": "completed", "waits": "queued"}


def test_json_counts_by_state(cli):
    code, answer = told(cli, "backup", "b.db")
    assert (code, answer["path"], answer["jobs"], answer["keys"]) == (0, "b.db", 2, 1)
    assert answer["states"] == {"completed": 1, "queued": 1}


@pytest.mark.parametrize(
    "wrong",
    [["backup", "standfast.db"], ["restore", "b.db"], ["restore", "nope.db", "--url", "new.db"]],
)
def test_nothing_is_overwritten_or_made_of_nothing(cli, here, wrong):
    cli("backup", "b.db")
    before = (here / "standfast.db").read_bytes()
    refused = cli(*wrong)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.count("\n") == 1
    assert (here / "standfast.db").read_bytes() == before
    assert not (here / "new.db").exists()


def test_a_store_that_is_not_there_has_no_backup(cli, here):
    absent = cli("backup", "b.db", "--url", "absent.db")
    assert absent.exit_code == 3
    assert not (here / "absent.db").exists()
    assert not (here / "b.db").exists()


def test_a_restore_names_what_is_valid_again_and_how_to_revoke_it(cli):
    cli("token", "create", "ci", "--role", "admin", "--person", "ann")
    cli("backup", "b.db")
    cli("token", "revoke", "ci")
    restored = cli("restore", "b.db", "--url", "new.db")
    assert restored.exit_code == 0
    [line] = [line for line in restored.stdout.splitlines() if "token" in line]
    assert line.startswith("1 token valid again, even if revoked since the backup")
    assert "standfast token list --url new.db" in line
    assert "standfast token revoke NAME --url new.db" in line
    assert [each["name"] for each in told(cli, "token", "list", "--url", "new.db")[1]["items"]] == ["ci"]


def test_a_restore_revokes_all_tokens_on_request(cli):
    cli("token", "create", "ci", "--role", "admin", "--person", "ann")
    cli("backup", "b.db")
    code, answer = told(cli, "restore", "b.db", "--revoke-tokens", "--url", "new.db")
    assert (code, answer["valid_tokens"], answer["revoked_tokens"]) == (0, 0, 1)
    assert told(cli, "token", "list", "--url", "new.db")[1]["items"] == []
    assert "1 token revoked" in cli("restore", "b.db", "--revoke-tokens", "--url", "other.db").stdout


def test_a_restore_names_the_consents_that_are_in_force_again(cli):
    work(sms=lambda _job: None, consent=True)
    cli("consent", "grant", "s1", "sms/sms", "--mode", "always")
    cli("backup", "b.db")
    restored = cli("restore", "b.db", "--url", "new.db")
    [line] = [line for line in restored.stdout.splitlines() if "consent" in line]
    assert line.startswith("1 consent in force again, even if revoked since the backup")
    assert "standfast consent list --url new.db" in line
