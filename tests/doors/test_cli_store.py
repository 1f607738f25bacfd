"""health, doctor, migrate, config and bench."""

import asyncio
import json
import os
import re
import sqlite3
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from standfast import Standfast
from standfast.store.migrations import migrations
from tests.doors.processes import surroundings

NEWEST = migrations("sqlite")[-1].number


def checks(result):
    report = json.loads(result.stdout)
    return {check["name"]: check for check in report["checks"]}, report["ok"]


class TestHealth:
    def test_a_store_where_nothing_waits_is_healthy(self, cli):
        cli("migrate")
        assert cli("health").stdout == "healthy\n"
        assert json.loads(cli("health", "--json").stdout)["status"] == "healthy"

    def test_issues_are_listed_and_exit_1(self, cli):
        cli("enqueue", "mail")
        sick = cli("health")
        assert sick.exit_code == 1
        [issue] = sick.stdout.splitlines()
        assert issue.startswith("mail: 1 job ")
        assert issue.endswith(" and no worker serves this queue; no handler is known, so check the queue's name")
        assert cli("health", "--json").exit_code == 1


class TestDoctor:
    def test_tells_everything_about_a_store_that_is_well(self, cli, here):
        cli("migrate")
        well = cli("doctor", "--json")
        found, ok = checks(well)
        assert (well.exit_code, ok) == (0, True)
        assert found["engine"]["value"].startswith("SQLite 3.")
        assert found["file"]["value"].startswith(str(here / "standfast.db"))
        assert found["schema"]["value"] == f"{NEWEST}; this library knows {NEWEST}"
        assert "synchronous=3, journal_mode=wal" in found["settings"]["value"]
        assert found["permissions"]["value"].startswith("0600")
        assert re.fullmatch(r"\S+ [MGT]iB free", found["disk"]["value"])
        assert found["clock"]["value"].startswith("boot ")
        assert found["file system"]["value"]
        assert found["health"]["value"] == "healthy"

    def test_writes_sizes_in_the_unit_that_fits(self, cli, here):
        cli("migrate")
        os.truncate(here / "standfast.db", 5_000_000)
        found, _ = checks(cli("doctor", "--json"))
        assert found["file"]["value"].endswith(", 4.76 MiB")

    def test_exits_1_when_something_is_wrong(self, cli):
        cli("enqueue", "mail")
        sick = cli("doctor")
        assert sick.exit_code == 1
        assert ["health", "wrong", "mail:"] in [line.split()[:3] for line in sick.stdout.splitlines()]

    def test_does_not_create_a_store(self, cli, here):
        absent = cli("doctor")
        assert absent.exit_code == 0
        assert "is not there yet" in absent.stdout
        assert list(here.iterdir()) == []

    def test_says_why_a_file_cannot_be_opened(self, cli, here):
        (here / "q.db").write_bytes(b"no database at all" * 100)
        refused = cli("doctor", "--url", "q.db", "--json")
        found, ok = checks(refused)
        assert (refused.exit_code, ok) == (1, False)
        assert found["opens"]["problem"].endswith("q.db is not a SQLite database; give standfast its own file")

    def test_leaves_the_database_of_another_program_alone(self, cli, here):
        with sqlite3.connect(here / "theirs.db") as theirs:
            theirs.execute("CREATE TABLE t (a)")
        theirs.close()
        before = (here / "theirs.db").read_bytes()
        found, _ = checks(cli("doctor", "--url", "theirs.db", "--json"))
        assert "another program's database" in found["opens"]["problem"]
        assert (here / "theirs.db").read_bytes() == before

    def test_names_a_newer_schema(self, cli, here):
        cli("migrate")
        with sqlite3.connect(here / "standfast.db") as store:
            store.execute("UPDATE schema SET version = 99, readable_by = 99")
        store.close()
        found, ok = checks(cli("doctor", "--json"))
        assert found["schema"]["value"].startswith("99;")
        assert "upgrade standfast" in found["opens"]["problem"]
        assert not ok

    def test_a_file_that_others_can_read_is_wrong(self, cli, here):
        cli("migrate")
        (here / "standfast.db").chmod(0o644)
        found, ok = checks(cli("doctor", "--json"))
        assert "chmod 600" in found["permissions"]["problem"]
        assert not ok

    @pytest.mark.parametrize(
        ("toml", "why"),
        [
            ("queues = 5", "queues"),
            ("[store]\nurk = 1", "urk"),
            ("[queues.mail]\nattempts = 0", "[queues.mail]: attempts must be at least 1"),
            ("= nonsense", "cannot read standfast.toml"),
            ("[stores]", "unknown table [stores]"),
            ("[store]\nurl = 'mysql://x'", "unknown store mysql://"),
        ],
    )
    def test_says_which_setting_stands_in_the_way(self, cli, here, toml, why):
        (here / "standfast.toml").write_text(toml)
        refused = cli("doctor", "--json")
        found, _ = checks(refused)
        assert refused.exit_code == 1
        assert why in found["configuration"]["problem"]
        assert cli("jobs").exit_code == 2

    def test_a_full_disk_is_wrong(self, cli, monkeypatch):
        monkeypatch.setattr("standfast.store.store_location.ROOM_TO_ACCEPT", 1 << 62)
        found, ok = checks(cli("doctor", "--json"))
        assert "free some space" in found["disk"]["problem"]
        assert not ok


class TestMigrate:
    def test_tells_from_where_to_where(self, cli):
        assert cli("migrate").stdout == f"schema 0 → {NEWEST}\n"
        assert cli("migrate").stdout == f"schema {NEWEST} → {NEWEST} (nothing to do)\n"
        assert json.loads(cli("migrate", "--json").stdout) == {"from": NEWEST, "to": NEWEST}

    def test_refuses_what_is_no_store(self, cli, here):
        (here / "q.db").write_bytes(b"no database at all" * 100)
        assert cli("migrate", "--url", "q.db").exit_code == 1


class TestConfig:
    def test_shows_commands_and_sources_without_their_secrets(self, cli, here):
        command = '[commands.deploy]\nargv = ["run"]\nenv = ["API_TOKEN=hunter2222"]\n'
        (here / "standfast.toml").write_text(
            command + '[ingest.github]\nsecret_env = "HOOK"\n[notify.surfaces.chat]\napprise_env = "CHAT"\n'
        )
        shown = cli("config").stdout
        assert "commands.deploy.argv" in shown
        assert "HOOK" in shown
        assert "notify.chat.apprise_env" in shown
        assert "hunter2222" not in shown

    def test_every_setting_has_a_value_and_a_source(self, cli, here, monkeypatch):
        def told():
            settings = json.loads(cli("config", "--json").stdout)["settings"]
            return {name: (it["value"], it["source"]) for name, it in settings.items()}

        assert told() == {
            "url": ("sqlite:///standfast.db", "default"),
            "config": ("standfast.toml", "default"),
            "strict_queues": (False, "default"),
            "spool": (False, "default"),
            "audit_file": (None, "default"),
            "approval_ttl": (86400.0, "default"),
            "keep_inbox": (604800.0, "default"),
            "consent_lifetime": (2592000.0, "default"),
            "replay": ("replay", "default"),
            "session_idle": (3600.0, "default"),
            "session_lifetime": (43200.0, "default"),
            "policy": ("standfast-policy.yaml", "default"),
            "log": ("auto", "default"),
            "log_level": ("info", "default"),
            "otel": (False, "default"),
        }
        (here / "mine.toml").write_text(
            "[store]\nurl = 'file.db'\nstrict_queues = true\nspool = 'jobs.spool'\naudit_file = 'heads'\n"
            "approval_ttl = '2h'\nkeep_inbox = '2d'\nconsent_lifetime = '1d'\nreplay = 'manual'\notel = false\n"
            "[server]\nsession_idle = '10m'\nsession_lifetime = '1d'\n"
        )
        monkeypatch.setenv("STANDFAST_CONFIG", "mine.toml")
        monkeypatch.setenv("STANDFAST_POLICY", "rules.yaml")
        monkeypatch.setenv("STANDFAST_LOG", "text")
        assert told() == {
            "url": ("file.db", "file"),
            "config": ("mine.toml", "environment"),
            "strict_queues": (True, "file"),
            "spool": ("jobs.spool", "file"),
            "audit_file": ("heads", "file"),
            "approval_ttl": (7200.0, "file"),
            "keep_inbox": (172800.0, "file"),
            "consent_lifetime": (86400.0, "file"),
            "replay": ("manual", "file"),
            "session_idle": (600.0, "file"),
            "session_lifetime": (86400.0, "file"),
            "policy": ("rules.yaml", "environment"),
            "log": ("text", "environment"),
            "log_level": ("info", "default"),
            "otel": (False, "file"),
        }
        monkeypatch.setenv("STANDFAST_URL", "environment.db")
        monkeypatch.setenv("STANDFAST_SPOOL", "other.spool")
        assert told()["url"] == ("environment.db", "environment")
        assert told()["spool"] == ("other.spool", "environment")
        named = json.loads(cli("config", "--json", "--url", "argument.db").stdout)
        assert named["settings"]["url"] == {"value": "argument.db", "source": "argument"}
        assert not list(here.glob("*.db"))

    @pytest.mark.usefixtures("every_store")
    def test_a_default_replay_mode_that_another_process_published_is_shown_as_the_stores(self, cli, here):
        def shown():
            return json.loads(cli("config", "--json").stdout)["settings"]["replay"]

        async def published():
            async with Standfast() as sf:
                sf.handler("pay")(print)
                await sf.open()

        assert shown() == {"value": "replay", "source": "default"}
        (here / "standfast.toml").write_text("[store]\nreplay = 'manual'\n")
        asyncio.run(published())
        (here / "standfast.toml").unlink()
        assert shown() == {"value": "manual", "source": "store"}
        (here / "standfast.toml").write_text("[store]\nreplay = 'verify_first'\n")
        assert shown() == {"value": "verify_first", "source": "file"}

    def test_settings_are_shown_while_the_store_cannot_be_used(self, cli, here):
        (here / "standfast.db").write_bytes(b"no database at all" * 100)
        result = cli("config", "--json")
        assert result.exit_code == 0
        assert json.loads(result.stdout)["settings"]["replay"] == {"value": "replay", "source": "default"}
        assert "what the store says of replay is not shown" in result.stderr

    def test_rules_of_declared_queues_are_shown_with_their_source(self, cli, here):
        (here / "standfast.toml").write_text("[queues.mail]\nattempts = 5\ntimeout = '2m'\n")
        rules = json.loads(cli("config", "--json").stdout)["queues"]["mail"]
        assert rules["attempts"] == {"value": 5, "source": "file"}
        assert rules["timeout"] == {"value": 120.0, "source": "file"}
        rows = [line.split() for line in cli("config").stdout.splitlines()]
        assert ["queues.mail.timeout", "file", "120.0"] in rows

    def test_rules_that_the_file_does_not_name_are_not_shown_for_they_may_not_be_in_force(self, cli, here):
        """The code of an application may declare others, and a ready-made profile is below the code."""
        (here / "standfast.toml").write_text("[queues.charge]\nrate = '2/s'\n[queues.identity_provision]\nlease = 30\n")
        queues = json.loads(cli("config", "--json").stdout)["queues"]
        assert {name: {*rules} for name, rules in queues.items()} == {
            "charge": {"rate"},
            "identity_provision": {"lease"},
        }
        assert "queues.charge.attempts" not in cli("config").stdout

    def test_the_spool_in_force_is_shown(self, cli, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

        def shown(url):
            return json.loads(cli("config", "--json", "--url", url).stdout)["settings"]["spool"]

        assert shown("standfast.db") == {"value": False, "source": "default"}
        usual = shown("postgresql://ann@db/q")
        assert usual["source"] == "default"
        assert Path(usual["value"]).parent == tmp_path / "standfast"
        assert usual["value"].endswith(".spool")
        monkeypatch.setenv("STANDFAST_SPOOL", "off")
        assert shown("postgresql://ann@db/q") == {"value": False, "source": "environment"}

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("postgresql://ann:hush@db/q", "postgresql://ann:***@db/q"),
            ("postgresql://ann:h@u/sh@db/q", "postgresql://ann:***@db/q"),
            ("postgresql://:hush@db/q", "postgresql://:***@db/q"),
            (
                "postgresql://db/q?user=ann&password=hush&sslmode=require",
                "postgresql://db/q?user=ann&password=***&sslmode=require",
            ),
            ("postgresql://ann@db/q", "postgresql://ann@db/q"),
            ("sqlite:////var/a:b@c.db", "sqlite:////var/a:b@c.db"),
        ],
    )
    def test_secrets_are_hidden(self, cli, url, shown):
        assert json.loads(cli("config", "--json", "--url", url).stdout)["settings"]["url"]["value"] == shown


class TestBench:
    def test_hands_over_what_was_asked(self, cli, monkeypatch):
        asked = []
        monkeypatch.setattr(import_module("standfast.bench.command"), "main", lambda *given: asked.append(given))
        assert cli("bench").exit_code == 0
        assert cli("bench", "--quick", "--rounds", "5", "--url", "q.db").exit_code == 0
        assert cli("bench", "--json").exit_code == 0
        assert cli("bench", "--url", "postgresql://db/app", "--peers", "none").exit_code == 0
        assert asked == [
            (None, False, 3, False, None),
            ("q.db", True, 5, False, None),
            (None, False, 3, True, None),
            ("postgresql://db/app", False, 3, False, "none"),
        ]


def test_importing_the_command_line_loads_nothing_heavy():
    program = "import sys, standfast.cli.main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=surroundings({}))
    loaded = set(done.stdout.decode().split())
    assert "standfast.cli.main" in loaded
    ours = {"standfast.bench", "standfast.demo", "standfast.testing"}
    heavy = {*ours, "h11", "httpx2", "rich", "sqlite3", "cronsim", "mcp", "starlette"}
    assert loaded & heavy == set()
