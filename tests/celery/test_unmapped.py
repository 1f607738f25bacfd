"""What does not map is refused where it is written, and names what standfast has in its place."""

from __future__ import annotations

import asyncio
import importlib
import re
from datetime import timedelta
from pathlib import Path

import pytest
from celery.app.defaults import NAMESPACES, flatten  # type: ignore[import-untyped]

from standfast.celery import Celery, app_conf, group, shared_task, unmapped
from standfast.celery.schedules import crontab, schedule
from standfast.errors import ConfigurationError


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"soft_time_limit": 5}, "time_limit"),
        ({"serializer": "pickle"}, "JSON"),
        ({"acks_late": False}, "replay='manual'"),
        ({"reject_on_worker_lost": False}, "replay='manual'"),
        ({"compression": "gzip"}, "reference"),
        ({"max_retrys": 5}, "did you mean 'max_retries'"),
    ],
)
def test_options_of_a_task_are_refused_at_its_declaration(app, options, names):
    with pytest.raises(ConfigurationError, match=names):
        app.task(**options)
    with pytest.raises(ConfigurationError, match=names):
        shared_task(**options)


def test_an_async_task_is_refused(app):
    with pytest.raises(ConfigurationError, match=r"sf\.handler"):

        @app.task
        async def fetch():
            pass


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"link": 1}, "chain"),
        ({"link_error": 1}, "dead letter"),
        ({"serializer": "pickle"}, "JSON"),
        ({"routing_key": "a.b"}, "queue="),
        ({"retry_policy": {}}, "otherwise="),
        ({"countdwn": 1}, "did you mean 'countdown'"),
        ({"queue": "nowhere"}, "task_queues"),
    ],
)
def test_options_of_a_call_are_refused_before_anything_is_written(app, options, names):
    @app.task
    def add():
        pass

    with pytest.raises(ConfigurationError, match=names):
        add.apply_async(**options)


@pytest.mark.parametrize(
    ("setting", "value", "names"),
    [
        ("task_serializer", "pickle", "JSON"),
        ("accept_content", ["json", "pickle"], "JSON"),
        ("task_acks_late", False, "replay='manual'"),
        ("worker_prefetch_multiplier", 4, "leave it out"),
        ("broker_transport_options", {"visibility_timeout": 3600}, "lease"),
        ("worker_max_tasks_per_child", 100, "--recycle-after"),
        ("beat_scheduler", "django_celery_beat", "no beat process"),
        ("task_soft_time_limit", 3, "time_limit"),
        ("cache_backend", "django-cache", "results are kept with their jobs"),
        ("broker_pool_limit", None, "no broker to connect to"),
        ("worker_log_format", "%(message)s", "STANDFAST_LOG_LEVEL"),
        ("redis_max_connections", 9, "leave it out"),
        ("result_backnd", "", "did you mean 'result_backend'"),
        ("taks_routes", {}, "did you mean 'task_routes'"),
    ],
)
def test_settings_are_refused_where_they_are_set(app, setting, value, names):
    with pytest.raises(ConfigurationError, match=names):
        app.conf.update({setting: value})
    with pytest.raises(ConfigurationError, match=names):
        setattr(app.conf, setting, value)


def test_no_setting_that_celery_has_is_called_unknown(app):
    refused = [name for name, _ in flatten(NAMESPACES) if name not in app_conf.DEFAULTS]
    assert len(refused) > 100
    for name in refused:
        with pytest.raises(ConfigurationError, match="does not map to standfast"):
            app.conf[name] = "a value that no setting has"


@pytest.mark.parametrize(
    ("setting", "value"),
    [("task_acks_late", True), ("task_serializer", "json"), ("accept_content", ["json"]), ("task_track_started", True)],
)
def test_settings_that_hold_anyway_are_taken(app, setting, value):
    app.conf[setting] = value
    assert app.conf[setting] == value


@pytest.mark.parametrize(
    ("module", "name", "names"),
    [
        ("signals", "task_prerun", "middleware"),
        ("signals", "worker_ready", "on_startup"),
        ("signals", "worker_process_init", "child process of a task with time_limit"),
        ("signals", "task_sent", "on_failure"),
        ("exceptions", "SoftTimeLimitExceeded", "time_limit"),
        ("schedules", "solar", "eta"),
        ("result", "allow_join_result", "disable_sync_subtasks"),
    ],
)
def test_names_that_do_not_map_are_refused_at_their_import(module, name, names):
    with pytest.raises(ConfigurationError, match=names):
        getattr(importlib.import_module(f"standfast.celery.{module}"), name)


def test_names_that_celery_does_not_have_are_no_attributes():
    import standfast.celery as shim  # noqa: PLC0415 - only here

    assert not hasattr(shim, "nonsense")


def test_a_foreign_broker_needs_a_store_that_is_named(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    app = Celery("shop", broker="redis://:secret@cache/0", backend="rpc://")
    with pytest.raises(ConfigurationError, match="STANDFAST_URL") as raised:
        _ = app.sf
    assert "secret" not in str(raised.value)
    monkeypatch.setenv("STANDFAST_URL", "sqlite:///shop.db")
    assert app.sf.settings.url.value == "sqlite:///shop.db"


@pytest.mark.parametrize("backend", ["django-db", "sqlite:///results.db", "cache", "db+sqlite:///results.db"])
def test_a_result_backend_is_never_the_store(monkeypatch, tmp_path, backend):
    monkeypatch.chdir(tmp_path)
    app = Celery("shop", backend=backend)
    with pytest.raises(ConfigurationError, match=r"result backend .* is not where standfast keeps jobs"):
        _ = app.sf
    with pytest.raises(ConfigurationError, match="broker memory is not where"):
        _ = Celery("shop", broker="memory", backend=backend).sf
    monkeypatch.setenv("STANDFAST_URL", "sqlite:///shop.db")
    assert app.sf.settings.url.value == "sqlite:///shop.db"
    assert Celery("shop", broker="other.db", backend=backend).sf.settings.url.value == "other.db"


def test_how_celery_waits_is_taken_and_its_callbacks_are_refused(app, work):
    results = [app.task(name="one")(lambda: 1).delay(), group(app.tasks["one"].s())()]
    work()
    assert [each.get(1, interval=0.1, follow_parents=True) for each in results] == [1, [1]]
    for each in results:
        with pytest.raises(ConfigurationError, match=r"\.view"):
            each.get(1, on_message=print)
        with pytest.raises(ConfigurationError, match="did you mean 'interval'"):
            each.get(1, intervl=0.1)


def test_a_rate_limit_needs_a_queue_of_its_own(tmp_path):
    app = Celery("shop", broker=str(tmp_path / "shop.db"))

    @app.task(rate_limit="10/m", name="mail")
    def mail():
        pass

    @app.task(name="other")
    def other():
        pass

    with pytest.raises(ConfigurationError, match="Give it its own queue"):
        _ = app.sf


def test_a_rate_limit_is_its_queues_rate(app):
    @app.task(rate_limit="10/m", queue="mail")
    def mail():
        pass

    @app.task
    def other():
        pass

    listed = asyncio.run(app.sf.queues.describe())
    assert listed.keys() == {"celery", "mail"}
    rates = [listed[name]["rules"].rate for name in ("mail", "celery")]
    assert (rates[0].limit, rates[0].per, rates[1]) == (10, 60.0, None)


@pytest.mark.parametrize(
    "make",
    [
        lambda: crontab(day_of_week=1, day_of_month=13),
        lambda: crontab(minute=0, nowfun=None),
        lambda: schedule(0.5),
        lambda: schedule(5, relative=True),
    ],
)
def test_schedules_that_would_run_at_other_times_are_refused(make):
    with pytest.raises(ConfigurationError):
        make()


@pytest.mark.parametrize(
    ("given", "cron"),
    [
        (crontab(), "* * * * *"),
        (crontab(minute=0, hour="*/3"), "0 */3 * * *"),
        (crontab(minute="0,30", hour=[8, 17], day_of_week="mon-fri"), "0,30 8,17 * * mon-fri"),
        (crontab(0, 0, day_of_month="1", month_of_year="1, 7"), "0 0 1 1,7 *"),
    ],
)
def test_a_crontab_is_one(given, cron):
    assert given.when("UTC") == {"cron": cron, "tz": "UTC"}
    assert schedule(timedelta(minutes=2)).when("UTC") == {"every": 120.0}


def test_retries_that_a_job_cannot_keep_are_refused(app):
    @app.task(bind=True)
    def later(self, **options):
        self.retry(**options)

    for options in ({"args": (1,)}, {"throw": False}, {"countdown": 90_000}, {"max_retries": 9}):
        result = later.apply(kwargs=options)
        assert isinstance(result.result, ConfigurationError), options


@pytest.mark.parametrize(
    ("name", "names"), [("events", "subscribe"), ("backend", "AsyncResult"), ("GroupResult", r"AsyncResult\(id\)")]
)
def test_attributes_of_an_app_that_do_not_map_say_so(app, name, names):
    with pytest.raises(ConfigurationError, match=names):
        getattr(app, name)
    assert not hasattr(app, "nonsense")


@pytest.mark.parametrize(
    ("of", "name", "names"),
    [
        ("control", "inspect", "standfast workers"),
        ("control", "purge", "revoke"),
        ("task", "map", r"group\(task\.s\(item\)"),
        ("task", "chunks", "group"),
        ("task", "replace", "at the end of this one"),
        ("request", "root_id", r"self\.job"),
        ("result", "children", r"\.parent"),
        ("result", "name", r"\.view"),
        ("group", "id", r"AsyncResult\(id\)"),
        ("group", "restore", r"AsyncResult\(id\)"),
    ],
)
def test_attributes_that_do_not_map_say_so_wherever_celery_has_them(app, of, name, names):
    task = app.task(lambda: None)
    there = {
        "control": app.control,
        "task": task,
        "request": task.request,
        "result": app.AsyncResult("some"),
        "group": group(task.s()).apply_async(),
    }[of]
    with pytest.raises(ConfigurationError, match=names):
        getattr(there, name)()
    assert not hasattr(there, "nonsense")


def test_the_page_names_everything_that_is_refused():
    text = (Path(__file__).parents[2] / "docs" / "migrating" / "celery.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", text.partition("## What does not map")[2]))))
    tables = [each for name, each in vars(unmapped).items() if name.isupper() and isinstance(each, dict)]
    refused = {name for table in [*tables, *unmapped.NAMES.values()] for name in table} - set(unmapped.NAMES)
    assert {"soft_time_limit", "inspect", "task_prerun", "children"} <= refused
    assert sorted(refused - named) == []


@pytest.mark.parametrize("name", ["Queue", "Exchange"])
def test_a_queue_object_is_refused_with_how_queues_are_named(name):
    import standfast.celery as shim  # noqa: PLC0415 - only here

    with pytest.raises(ConfigurationError, match=r"task_queues=\['mail'"):
        getattr(shim, name)


@pytest.mark.parametrize(
    ("option", "names"), [("link", "chain"), ("link_error", "dead letter"), ("countdwn", "countdown")]
)
def test_options_that_do_not_map_are_refused_where_they_are_set(app, option, names):
    with pytest.raises(ConfigurationError, match=names):
        app.task(lambda: None).s().set(**{option: 1})


@pytest.mark.parametrize(("name", "names"), [("on_error", "dead letter"), ("link", "chain")])
def test_callbacks_of_a_signature_that_do_not_map_say_so(app, name, names):
    with pytest.raises(ConfigurationError, match=names):
        getattr(app.task(lambda: None).s(), name)


def test_an_empty_chord_needs_a_body():
    from standfast.celery import chord  # noqa: PLC0415 - only here

    with pytest.raises(ConfigurationError, match="body"):
        chord(group())()
