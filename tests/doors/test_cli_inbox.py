"""inbox SESSION, and jobs --session."""

import pytest

from tests.doors.stages import job_of, refuse, told, work


@pytest.fixture
def letter(cli):
    """Let a job of a session die."""
    job_id = job_of(cli, "mail", "--session", "s")
    job_of(cli, "mail")
    work(mail=refuse)
    return job_id


def test_messages_are_listed_acknowledged_and_kept_from_others(cli, letter):
    code, found = told(cli, "inbox", "s")
    [message] = found["items"]
    assert (code, message["kind"], message["job_id"]) == (0, "retry_exhausted", letter)
    assert told(cli, "inbox", "other") == (0, {"items": []})
    assert cli("inbox", "other", "--ack", message["id"]).exit_code == 3
    assert told(cli, "inbox", "s", "--ack", message["id"]) == (0, {"items": []})
    assert [each["read"] for each in told(cli, "inbox", "s", "--all")[1]["items"]] == [True]
    assert [each["id"] for each in told(cli, "jobs", "--session", "s")[1]["items"]] == [letter]


@pytest.mark.usefixtures("letter")
def test_a_terminal_gets_a_table_without_what_the_failure_smuggled_in(cli):
    written = cli("inbox", "s").stdout
    assert "retry_exhausted" in written
    assert not {"\x1b", "\x07", "\u202e", "\u2066", "\x9b"} & set(written)
    assert "no unread messages" in cli("inbox", "nobody").stdout
