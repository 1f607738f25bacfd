"""promote."""

import pytest

from tests.doors.stages import job_of, told


@pytest.fixture
def job(cli):
    return job_of(cli, "mail", "1", "--key", "k")


def test_it_tells_what_was_moved_and_nothing_else_when_piped(cli, job, postgres_url):
    moved = cli("promote", "standfast.db", postgres_url)
    assert (moved.exit_code, moved.stderr) == (0, "")
    first, state, frozen = moved.stdout.splitlines()
    assert first == f"moved to {postgres_url}: 1 job, 1 key, compared"
    assert state.startswith("  queued: 1 job, sha256 ")
    assert frozen.startswith("nothing was accepted or started for ")
    assert told(cli, "status", job, "--url", postgres_url)[1]["state"] == "queued"
    refused = cli("status", job)
    assert refused.exit_code == 1
    assert f"this store has moved to {postgres_url}" in refused.stderr


@pytest.mark.usefixtures("job")
def test_json_is_the_account_also_when_asked_again(cli, postgres_url):
    code, account = told(cli, "promote", "standfast.db", postgres_url)
    assert (code, account["to"], account["jobs"], account["keys"]) == (0, postgres_url, 1, 1)
    assert account["states"]["queued"]["jobs"] == 1
    assert told(cli, "promote", "standfast.db", postgres_url) == (0, account)


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["absent.db", "postgresql://localhost/x"], "there is no store"),
        (["standfast.db", "other.db"], "promoted to postgresql"),
        (["standfast.db", "postgresql://localhost/x", "--url", "q.db"], "promote FROM TO"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_touched(cli, arguments, why):
    refused = cli("promote", *arguments)
    assert refused.exit_code == 2
    assert why in refused.stderr
    assert cli("jobs").exit_code == 0
