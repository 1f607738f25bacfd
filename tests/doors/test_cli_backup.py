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
