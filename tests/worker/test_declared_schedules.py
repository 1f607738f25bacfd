"""`sf.schedule`: schedules that stand in the code, published by workers and servers, paused when gone from the code."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import msgspec
import pytest

from standfast import ConfigurationError, PayloadRejected, Standfast
from standfast.testing import drain
from standfast.wings.schedules.declared_schedules import SILENCE, DeclaredSchedules
from tests.waiting import seen

HOUR = 3600.0


class Report(msgspec.Struct):
    month: int


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give what puts a module of an application into this process, and takes it out again."""

    def have(name: str = "shop_code", *, there: bool = True) -> str:
        monkeypatch.setitem(sys.modules, name, ModuleType(name)) if there else monkeypatch.delitem(sys.modules, name)
        return name

    return have


def declared(sf: Any, module: str, name: str = "nightly", **options: Any) -> Any:
    """Declare a schedule as the code of a module would."""
    asked = {"every": "1h", **options}
    exec("sf.schedule(name, 'reports', **asked)", {"__name__": module, "sf": sf, "name": name, "asked": asked})  # noqa: S102
    return sf


class Process:
    """Another process on the same store, which serves queues: as much of it as schedules need."""

    def __init__(self, sf: Any, *queues: str) -> None:
        self._declared_schedules = DeclaredSchedules(sf._store, sf.schedules, lambda: frozenset(queues))  # noqa: SLF001

    def schedule(self, name: str, queue: str, **asked: Any) -> None:
        module = sys._getframe(1).f_globals["__name__"]  # noqa: SLF001 - as `sf.schedule` does
        self._declared_schedules.declare(name, module, queue=queue, payload=None, **asked)


def serving(sf: Any, *queues: str) -> Any:
    for queue in queues or ("reports",):
        sf.handler(queue)(lambda _job: None)
    return sf


async def schedules(sf: Standfast) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in await sf.schedules.list()}


async def test_a_worker_publishes_it_and_it_runs(sf, code):
    declared(serving(sf), code(), payload={"month": 1})
    assert await schedules(sf) == {}, "looking publishes nothing"
    await drain(sf)
    found = (await schedules(sf))["nightly"]
    assert (found["every"], found["queue"], found["payload"]) == (HOUR, "reports", {"month": 1})
    sf.clock.advance(HOUR)
    assert await drain(sf) == {"reports": 1}


async def test_an_enqueue_and_a_command_that_looks_publish_no_schedule(sf, code):
    declared(serving(sf), code())
    await sf.enqueue("reports")
    await sf.stats()
    assert await schedules(sf) == {}


async def test_a_server_publishes_it_too(disk, code):
    declared(serving(disk), code())
    async with disk.alerting():
        assert list(await schedules(disk)) == ["nightly"]


async def test_an_unchanged_one_keeps_its_anchor_its_pause_and_its_next_run(sf, code):
    declared(serving(sf), code())
    await drain(sf)
    first = (await schedules(sf))["nightly"]
    sf.clock.advance(HOUR / 2)
    await sf.schedules.pause("nightly")
    sf._declared_schedules.forget()  # noqa: SLF001 - as a process that starts anew
    await drain(sf)
    found = (await schedules(sf))["nightly"]
    assert found["paused"]
    await sf.schedules.resume("nightly")
    assert (await schedules(sf))["nightly"]["next_runs"] == first["next_runs"]


async def test_what_is_wrong_with_it_is_said_where_it_stands_or_when_the_worker_starts(sf, code):
    with pytest.raises(ConfigurationError, match="one of cron, every and at"):
        declared(sf, code(), cron="0 9 * * *")
    with pytest.raises(ConfigurationError, match="cron"):
        declared(sf, code(), every=None, cron="whenever")
    with pytest.raises(ConfigurationError, match=r"unknown option 'priorty' \(did you mean 'priority'"):
        declared(sf, code(), priorty=9)
    with pytest.raises(ConfigurationError, match=r"unknown option 'crn' \(did you mean 'cron'"):
        await sf.schedules.add("nightly", "reports", crn="0 9 * * *")
    declared(sf, code())
    with pytest.raises(ConfigurationError, match="declared twice"):
        declared(sf, code())
    sf.handler("reports", input=Report)(lambda _job: None)
    declared(sf, code(), name="misfit", payload={"month": "May"})
    with pytest.raises(PayloadRejected, match="does not fit reports"):
        await drain(sf)


# --- gone from the code


async def silence(sf: Any, *others: Any) -> None:
    """Let so much time pass that whoever is not heard of is silent, and have the others give their signs of life."""
    for _ in range(5):
        sf.clock.advance(SILENCE / 4)
        for each in others:
            await each._declared_schedules.keep_up()  # noqa: SLF001 - what the loop of a worker does


async def test_one_that_is_gone_from_the_code_is_paused_and_named_in_health(sf, code, caplog):
    old = declared(Process(sf, "reports"), code())
    await old._declared_schedules.publish()  # noqa: SLF001
    new = serving(sf)
    await silence(sf, new)
    found = (await schedules(sf))["nightly"]
    assert found["paused"]
    [issue] = [each for each in (await sf.health())["issues"] if "nightly" in each]
    assert "gone from the code of shop_code, and paused since" in issue
    assert "schedule nightly is gone from the code of shop_code and is paused" in caplog.text
    sf.clock.advance(HOUR)
    assert await drain(sf) == {}


async def test_one_that_comes_back_goes_on_with_its_beat_and_what_a_person_paused_stays_paused(sf, code):
    old = declared(Process(sf, "reports"), code())
    await old._declared_schedules.publish()  # noqa: SLF001
    first = (await schedules(sf))["nightly"]["next_runs"]
    new = serving(sf)
    await silence(sf, new)
    back = declared(Process(sf, "reports"), code())
    await back._declared_schedules.publish()  # noqa: SLF001
    found = (await schedules(sf))["nightly"]
    assert (found["paused"], found["next_runs"]) == (False, first)
    assert (await sf.health())["issues"] == []
    await sf.schedules.pause("nightly")
    await silence(sf, new)
    again = declared(Process(sf, "reports"), code())
    await again._declared_schedules.publish()  # noqa: SLF001
    assert (await schedules(sf))["nightly"]["paused"]


async def test_during_a_rolling_upgrade_the_old_code_keeps_it_alive(sf, code):
    """Old and new code have the same module; as long as one process of the old lives, nothing is paused."""
    old = declared(Process(sf, "reports"), code())
    await old._declared_schedules.publish()  # noqa: SLF001
    new = serving(sf)
    await silence(sf, new, old)
    await silence(sf, old, new)
    assert not (await schedules(sf))["nightly"]["paused"]
    await silence(sf, new)
    assert (await schedules(sf))["nightly"]["paused"]


@pytest.mark.parametrize(
    ("module", "queues"),
    [("another_shop", ["reports"]), ("shop_code", ["mail"])],
    ids=["which does not have the module", "of the same name with other queues"],
)
async def test_another_application_on_the_store_says_nothing_about_it(sf, code, module, queues):
    theirs = declared(Process(sf, "reports"), "shop_code")
    await theirs._declared_schedules.publish()  # noqa: SLF001
    other = declared(serving(sf, *queues), code(module), name="other")
    await silence(sf, other)
    assert {name: each["paused"] for name, each in (await schedules(sf)).items()} == {"nightly": False, "other": False}


async def test_a_module_that_was_deleted_takes_its_schedules_along(sf, code):
    package = code("shop_code")
    theirs = declared(Process(sf, "reports"), f"{package}.reports.nightly")
    await theirs._declared_schedules.publish()  # noqa: SLF001
    new = serving(sf)
    await silence(sf, new)
    assert (await schedules(sf))["nightly"]["paused"]


async def test_a_person_may_keep_what_is_gone_or_remove_it(sf, code):
    for name in ("kept", "removed"):
        theirs = declared(Process(sf, "reports"), code(), name=name)
        await theirs._declared_schedules.publish()  # noqa: SLF001
    new = serving(sf)
    await silence(sf, new)
    await sf.schedules.resume("kept")
    await sf.schedules.remove("removed")
    await silence(sf, new)
    assert {name: each["paused"] for name, each in (await schedules(sf)).items()} == {"kept": False}
    assert (await sf.health())["issues"] == []


async def test_two_live_processes_that_declare_it_differently_are_named_in_health(disk, url, code):
    declared(serving(disk), code(), payload={"month": 1})
    other = declared(serving(Standfast(url)), code(), payload={"month": 2})

    async def named() -> bool:
        issues = (await disk.health())["issues"]
        return any(
            each.startswith("schedule nightly: two live processes declare different rules: pid") for each in issues
        )

    async with disk.worker(), other, other.worker():
        await seen(named)
    assert (await schedules(disk))["nightly"]["payload"] == {"month": 2}, "the last one to start decides"
