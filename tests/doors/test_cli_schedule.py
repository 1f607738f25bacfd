"""schedule list, schedule add, schedule remove, schedule pause, schedule resume."""

import re

import pytest

from tests.doors.stages import told


def test_a_schedule_is_added_listed_paused_and_removed(cli):
    said = cli("schedule", "add", "nightly", "report", '{"a":1}', "--cron", "0 9 * * 1-5", "--tz", "Europe/Berlin")
    assert said.exit_code == 0
    assert said.stdout.startswith("nightly runs every weekday at 09:00 Europe/Berlin; next ")
    code, listed = told(cli, "schedule", "list")
    [found] = listed["items"]
    assert (code, found["payload"], found["missed"], len(found["next_runs"])) == (0, {"a": 1}, "latest", 3)
    assert re.search(r"\d\d:00:00 Europe/Berlin", cli("schedule", "list").stdout), "its times are not those of UTC"
    assert cli("schedule", "pause", "nightly").stdout == "nightly is paused\n"
    shown = cli("schedule", "list").stdout
    assert "every weekday at 09:00 Europe/Berlin" in shown
    assert "paused" in shown
    assert told(cli, "schedule", "resume", "nightly") == (0, {"name": "nightly", "outcome": "resumed"})
    assert cli("schedule", "remove", "nightly").exit_code == 0
    assert cli("schedule", "list").stdout.startswith("no schedules")


def test_every_option_arrives(cli):
    options = ["--every", "15m", "--missed", "all", "--jitter", "10", "--overlap", "--priority", "3", "--label", "a=b"]
    code, added = told(cli, "schedule", "add", "often", "report", *options)
    assert code == 0
    assert (added["when"], added["missed"], added["jitter"], added["overlap"]) == (
        "every 15 minutes",
        "all",
        10.0,
        True,
    )
    assert added["options"] == {"priority": 3, "labels": {"a": "b"}}


def test_a_time_that_is_past_is_said_to_be(cli):
    said = cli("schedule", "add", "once", "report", "--at", "2020-01-01T00:00", "--tz", "Europe/Berlin")
    assert "that is past, and it will not run" in said.stdout
    assert "done" in cli("schedule", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("add", "s", "q"), 2),
        (("add", "s", "q", "--cron", "0 0 30 2 *"), 2),
        (("add", "s", "q", "--every", "1h", "--at", "2030-01-01T00:00"), 2),
        (("list",), 3),
        (("pause", "s"), 3),
    ],
)
def test_what_cannot_be_is_refused_and_makes_no_store(cli, here, arguments, code):
    assert cli("schedule", *arguments).exit_code == code
    assert list(here.iterdir()) == []


def test_a_name_nobody_knows_is_not_found(cli):
    cli("enqueue", "q")
    refused = cli("schedule", "remove", "s")
    assert (refused.exit_code, "no schedule is called 's'" in refused.stderr) == (3, True)
