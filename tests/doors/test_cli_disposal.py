"""dead groups, amend, discard, quarantine, purge, export, import."""

import json

import pytest

from standfast.spine.accept import user
from tests.doors.stages import HOSTILE, job_of, outage, refuse, told, unsure, work
from tests.doors.test_cli_terminal import ACTING

WHY = ("--reason", "ticket 7")


@pytest.fixture
def letters(cli):
    """Let three jobs die, each its own way; give their ids by queue."""
    ids = {queue: job_of(cli, queue, json.dumps({queue: HOSTILE})) for queue in ("refused", "away", "unclear")}
    work(refused=refuse, away=outage, unclear=unsure)
    return ids


def decided(cli, kind):
    """Give who decided something of a kind, about what, and why."""
    found = told(cli, "audit", "log", "--kind", kind)[1]["items"]
    return [(entry.get("job"), entry["by"], entry["reason"]) for entry in found]


def test_groups_are_listed_and_their_fingerprint_filters(cli, letters):
    code, found = told(cli, "dead", "groups")
    assert (code, [group["count"] for group in found["items"]]) == (0, [1, 1, 1])
    [one] = [group for group in found["items"] if group["queue"] == "away"]
    assert one["sample"] == letters["away"]
    shown = cli("dead", "groups", "--queue", "away").stdout.splitlines()
    assert shown[0].split()[:3] == ["LETTERS", "FINGERPRINT", "QUEUE"]
    assert one["fingerprint"] in shown[1]
    listed = told(cli, "dead", "list", "--fingerprint", one["fingerprint"])[1]["items"]
    assert [letter["id"] for letter in listed] == [letters["away"]]


def test_no_letters_are_no_groups(cli):
    job_of(cli, "mail")
    assert cli("dead", "groups").stdout == "no letters\n"
    assert told(cli, "dead", "groups") == (0, {"items": []})


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_text_from_outside_never_acts(cli, form):
    """What a handler raised is in the groups; on a terminal it passes the same place."""
    shown = cli("dead", "groups", *form).stdout
    assert "gnp.exe" in shown
    assert ACTING.findall(shown) == []


def test_an_amended_letter_runs_with_its_new_payload(cli, letters):
    job = letters["refused"]
    done = cli("dead", "amend", job, '{"to": "bob"}', *WHY)
    assert (done.exit_code, done.stdout.split(";")[0]) == (0, f"{job} amended, generation 1")
    assert decided(cli, "amend") == [(job, user(), "ticket 7")]
    cli("dead", "replay", job)
    work(refused=lambda each: each.payload)
    assert told(cli, "status", job)[1]["result"] == {"to": "bob"}


def test_a_payload_is_read_from_standard_input(cli, letters):
    done = cli("dead", "amend", letters["refused"], "-", *WHY, "--json", stdin=b'{"to": "eve"}')
    assert json.loads(done.stdout)["payload"] == {"to": "eve"}


@pytest.mark.parametrize("wrong", ['{"to": "bob"', '{"to": NaN}', '{"a": 1, "a": 2}'])
def test_a_bad_payload_exits_2_and_changes_nothing(cli, letters, wrong):
    job = letters["refused"]
    done = cli("dead", "amend", job, wrong, *WHY)
    assert (done.exit_code, done.stdout) == (2, "")
    assert told(cli, "dead", "show", job)[1]["generation"] == 0


def test_discard_and_quarantine_say_what_they_did(cli, letters):
    gone, apart = letters["refused"], letters["away"]
    assert cli("dead", "discard", gone, *WHY).stdout == f"{gone} discarded\n"
    assert cli("dead", "quarantine", apart, "--owner", "ops", *WHY).stdout == f"{apart} quarantined for ops\n"
    assert told(cli, "status", gone)[1]["state"] == "cancelled"
    assert told(cli, "dead", "show", apart)[1]["triage"]["owner"] == "ops"
    assert decided(cli, "discard") == [(gone, user(), "ticket 7")]
    assert decided(cli, "quarantine") == [(apart, user(), "ticket 7")]


@pytest.mark.parametrize("command", ["discard", "quarantine", "amend"])
def test_a_reason_is_needed_and_a_letter(cli, letters, command):
    given = ["{}"] if command == "amend" else []
    assert cli("dead", command, letters["away"], *given).exit_code == 2
    assert cli("dead", command, "nope", *given, *WHY).exit_code == 3
    waits = job_of(cli, "mail")
    refused = cli("dead", command, waits, *given, *WHY)
    assert (refused.exit_code, "is not a letter: it is queued" in refused.stderr) == (1, True)


@pytest.mark.parametrize("names", [["x"], ["app:sf", "more", "x", "{}"]])
def test_amend_takes_an_id_and_a_payload(cli, names):
    assert cli("dead", "amend", *names, *WHY).exit_code == 2


@pytest.mark.usefixtures("letters")
def test_a_purge_says_how_many_and_deletes_when_that_is_confirmed(cli):
    for given in ([], ["--confirm", "2"]):
        refused = cli("dead", "purge", *given, *WHY)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "3 letters match" in refused.stderr
        assert "--confirm 3" in refused.stderr
    assert cli("dead", "purge", "--queue", "away", "--confirm", "1", *WHY).stdout == "1 letter purged\n"
    assert told(cli, "dead", "purge", "--confirm", "2", *WHY) == (0, {"purged": 2})
    assert told(cli, "dead", "list")[1]["items"] == []
    assert cli("dead", "purge", "--confirm", "0").exit_code == 2


@pytest.mark.usefixtures("letters")
def test_a_purge_that_only_counts_asks_for_no_reason_and_one_that_deletes_does(cli):
    counted = cli("dead", "purge", "--queue", "away")
    assert (counted.exit_code, "1 letter matches; nothing was deleted" in counted.stderr) == (2, True)
    refused = cli("dead", "purge", "--queue", "away", "--confirm", "1")
    assert (refused.exit_code, "say why with --reason" in refused.stderr) == (2, True)
    assert len(told(cli, "dead", "list")[1]["items"]) == 3


def test_letters_go_from_one_store_to_another(cli, letters, here):
    done = cli("dead", "export", "letters.jsonl", "--queue", "away")
    assert done.stdout == "1 letter written to letters.jsonl; it holds payloads as they are\n"
    there = ("--url", "other.db")
    assert cli("dead", "import", "letters.jsonl", *WHY, *there).stdout == "1 letter imported, 0 known already\n"
    code, again = told(cli, "dead", "import", "letters.jsonl", *WHY, *there)
    assert (code, again) == (0, {"imported": 0, "known": 1, "without_key": 0})
    assert told(cli, "dead", "show", letters["away"], *there)[1]["payload"] == {"away": HOSTILE}
    assert cli("dead", "export", "letters.jsonl").exit_code == 2
    assert cli("dead", "import", "nowhere.jsonl", *WHY).exit_code == 2
    (here / "bad.jsonl").write_text("{}\n")
    bad = cli("dead", "import", "bad.jsonl", *WHY)
    assert (bad.exit_code, "line 1 is not a letter of standfast" in bad.stderr) == (2, True)


def test_an_export_can_be_piped(cli, letters):
    lines = cli("dead", "export", "-").stdout.splitlines()
    assert {json.loads(line)["id"] for line in lines} == set(letters.values())
    brought = cli("dead", "import", "-", *WHY, stdin="\n".join(lines).encode())
    assert brought.stdout == "0 letters imported, 3 known already\n"
