"""Settings: argument over environment over file over default, each with its source, and nothing misspelt passes."""

from __future__ import annotations

import pytest

from standfast import Standfast
from standfast.errors import ConfigurationError, UnknownQueue
from standfast.rules import Backoff, QueueRules, exponential, fixed
from standfast.settings import Setting, load


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Read no settings of this machine's."""
    monkeypatch.chdir(tmp_path)
    for name in ("STANDFAST_URL", "STANDFAST_CONFIG", "STANDFAST_LOG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def write(tmp_path):
    def file(text, name="standfast.toml"):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return file


@pytest.mark.parametrize(
    ("argument", "environment", "file", "expected"),
    [
        ("a.db", "e.db", "f.db", Setting("a.db", "argument")),
        (None, "e.db", "f.db", Setting("e.db", "environment")),
        (None, None, "f.db", Setting("f.db", "file")),
        (None, None, None, Setting("sqlite:///standfast.db", "default")),
        ("a.db", None, "f.db", Setting("a.db", "argument")),
        (None, "", "f.db", Setting("f.db", "file")),
    ],
)
def test_the_url_is_the_nearest_that_was_given(write, argument, environment, file, expected):
    if file:
        write(f'[store]\nurl = "{file}"')
    given = {} if environment is None else {"STANDFAST_URL": environment}
    assert load(argument, given).url == expected


def test_without_anything_there_are_the_defaults():
    settings = load(None, {})
    assert settings.config == Setting("standfast.toml", "default")
    assert settings.strict_queues == Setting(value=False, source="default")
    assert settings.log == Setting("auto", "default")
    assert settings.queues == {}


def test_the_file_may_be_named_by_the_environment(write):
    path = write('[store]\nurl = "other.db"', name="other.toml")
    write('[store]\nurl = "default.db"')
    settings = load(None, {"STANDFAST_CONFIG": path})
    assert (settings.config, settings.url.value) == (Setting(path, "environment"), "other.db")


def test_a_file_that_was_named_must_be_there(tmp_path):
    with pytest.raises(ConfigurationError, match=r"cannot read .*missing\.toml"):
        load(None, {"STANDFAST_CONFIG": str(tmp_path / "missing.toml")})


@pytest.mark.parametrize("text", ["[store", "url = ", "a = 1\na = 2", "\ud7ff = 1"])
def test_a_file_that_is_no_toml_is_refused_by_name(write, text):
    write(text)
    with pytest.raises(ConfigurationError, match=r"cannot read standfast\.toml"):
        load(None, {})


def test_a_file_that_is_no_text_is_refused_by_name(tmp_path):
    (tmp_path / "standfast.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"cannot read standfast\.toml"):
        load(None, {})


def test_a_directory_in_place_of_the_file_is_refused(tmp_path):
    (tmp_path / "standfast.toml").mkdir()
    with pytest.raises(ConfigurationError, match=r"cannot read standfast\.toml"):
        load(None, {})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[stores]", r"unknown table \[stores\]; known are queues"),
        ("strict_queues = true", r"unknown table \[strict_queues\]"),
        ("[store]\nurls = 'x'", "urls"),
        ("[store]\nstrict_queues = 'yes'", "strict_queues"),
        ("[store]\nurl = 5", "url"),
        ("queues = 5", "queues"),
        ("[queues]\nmail = 5", "mail|queues"),
        ("commands = 5", "commands"),
        ("[ingest]\ngithub = 5", "ingest"),
        ("[queues.mail]\natempts = 5", r"\[queues\.mail\]: unknown queue setting 'atempts' .*'attempts'"),
        ("[queues.mail]\nattempts = 0", r"\[queues\.mail\]: attempts must be at least 1"),
        ("[queues.mail]\nattempts = 'five'", r"\[queues\.mail\]"),
        ("[queues.mail]\nlease = '5 parsecs'", "is not a duration"),
        ("[queues.mail]\nbackoff = 'sometimes'", "unknown backoff 'sometimes'; known are"),
        ("[queues.mail]\nbackoff = {bse = 5}", "unknown backoff setting 'bse' .*; known are base, cap"),
    ],
)
def test_what_is_unknown_or_misfits_is_an_error_that_names_it(write, text, named):
    write(text)
    with pytest.raises(ConfigurationError, match=named):
        load(None, {})


def test_a_log_format_nobody_knows_is_refused():
    assert load(None, {"STANDFAST_LOG": "json"}).log == Setting("json", "environment")
    assert load(None, {"STANDFAST_LOG_LEVEL": "DEBUG"}).log_level == Setting("debug", "environment")
    with pytest.raises(ConfigurationError, match="STANDFAST_LOG_LEVEL='loud' is unknown; known are debug, info"):
        load(None, {"STANDFAST_LOG_LEVEL": "loud"})
    with pytest.raises(ConfigurationError, match="STANDFAST_LOG='xml' is unknown"):
        load(None, {"STANDFAST_LOG": "xml"})


def test_queue_rules_in_the_file_read_as_in_code(write):
    write("""
[queues.mail]
attempts = 7
backoff = {base = 5, cap = 600}
lease = "2m"
max_age = "7d"
keep_completed = "1h 30m"

[queues.chat]
backoff = "fixed"
""")
    settings = load(None, {})
    assert settings.queues == {
        "mail": QueueRules(
            attempts=7, backoff=exponential(base=5, cap=600), lease=120.0, max_age=604800.0, keep_completed=5400.0
        ),
        "chat": QueueRules(backoff=fixed()),
    }


def test_the_file_goes_over_the_code_rule_by_rule(write):
    """An operator who sets one rule must not undo the others a programmer wrote."""
    write("[queues.mail]\nattempts = 9")
    sf = Standfast(":memory:")
    declared = sf.queue("mail", attempts=3, backoff=fixed(7), lease=30)
    assert declared == QueueRules(attempts=9, backoff=Backoff(table=(7.0,)), lease=30.0)
    assert sf.queue("chat", attempts=3) == QueueRules(attempts=3)


async def test_what_the_file_declares_is_in_force(write):
    write("[queues.mail]\nattempts = 9")
    async with Standfast(":memory:") as sf:
        receipt = await sf.enqueue("mail", {})
        view = await sf.status(receipt.id or "")
        assert view is not None
        assert view.max_attempts == 9


async def test_strict_queues_refuse_what_nobody_declared(write):
    write("[store]\nstrict_queues = true\n[queues.chat]")
    async with Standfast(":memory:") as sf:
        sf.queue("mail")
        for queue in ("mail", "chat"):
            assert (await sf.enqueue(queue, {})).outcome == "accepted"
        with pytest.raises(UnknownQueue, match="no queue is called 'male'"):
            await sf.enqueue("male", {})


async def test_without_strict_queues_any_name_will_do():
    async with Standfast(":memory:") as sf:
        assert (await sf.enqueue("male", {})).outcome == "accepted"


@pytest.mark.parametrize("written", ["'soon'", "0", "-1"])
def test_an_approval_waits_for_some_time(tmp_path, written):
    (tmp_path / "mine.toml").write_text(f"[store]\napproval_ttl = {written}\n")
    with pytest.raises(ConfigurationError, match="approval_ttl"):
        load(None, {"STANDFAST_CONFIG": str(tmp_path / "mine.toml")})


def test_people_have_groups(tmp_path):
    (tmp_path / "mine.toml").write_text("[groups]\nbea = ['governance', 'finance']\n")
    found = load(None, {"STANDFAST_CONFIG": str(tmp_path / "mine.toml")})
    assert found.groups == {"bea": ("governance", "finance")}


@pytest.mark.parametrize(
    ("written", "variable", "value", "source"),
    [
        ("", "", None, "default"),
        ("spool = false", "", False, "file"),
        ("spool = true", "", None, "file"),
        ("spool = 'jobs'", "", "jobs", "file"),
        ("spool = 'jobs'", "off", False, "environment"),
        ("spool = false", "other", "other", "environment"),
    ],
)
def test_the_spool_is_a_file_or_switched_off(tmp_path, written, variable, value, source):
    (tmp_path / "it.toml").write_text(f"[store]\n{written}\n")
    environment = {"STANDFAST_CONFIG": str(tmp_path / "it.toml"), "STANDFAST_SPOOL": variable}
    assert load(None, environment).spool == Setting(value, source)
