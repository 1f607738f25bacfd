"""A command with a wrong address ends with exit code 1 and one line; it neither waits nor spools."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doors.processes import standfast
from tests.postgres import split_schema


@pytest.fixture(params=["no database", "no role", "no host", "no database file", "theirs"])
def wrong(request: pytest.FixtureRequest, here: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the address of a store that cannot be used, whoever waits."""
    monkeypatch.setenv("STANDFAST_SPOOL", str(here / "spool"))
    if request.param == "no host":
        return "postgresql://app@no-such-host.invalid/postgres"
    if request.param == "no database file":
        (here / "queue.db").write_bytes(b"a text that somebody keeps here" * 100)
        return "queue.db"
    if request.param == "theirs":
        import sqlite3  # noqa: PLC0415 - the other program

        with sqlite3.connect(here / "theirs.db") as theirs:
            theirs.execute("CREATE TABLE t (a)")
        theirs.close()
        return "theirs.db"
    server, _ = split_schema(request.getfixturevalue("shared_server"))
    if request.param == "no role":
        return server.replace("postgres@", "no_such_role@")
    return server.replace("/postgres?", "/no_such_database?")


LESS_USED = [pytest.param(words, marks=pytest.mark.long) for words in (("serve", "--port", "0"), ("stats",))]


@pytest.mark.parametrize("arguments", [("enqueue", "mail", "1"), ("worker",), *LESS_USED])
def test_a_command_with_a_wrong_address_ends_with_one_line(wrong, here, arguments):
    done = standfast(*arguments, "--url", wrong)
    lines = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout, len(lines)) == (1, b"", 1), done
    assert lines[0].startswith("standfast: ")
    assert "standfast doctor" in lines[0]
    assert not (here / "spool").exists()


def test_health_and_doctor_say_what_is_wrong_with_the_address(wrong):
    for command in ("health", "doctor"):
        assert standfast(command, "--url", wrong).returncode == 1
