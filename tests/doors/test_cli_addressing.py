"""How a command is told which store and which job it is about."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from standfast import Standfast
from standfast.cli.group import NOT_FOUND, USAGE
from tests.doors.conftest import Cli

APPLICATION = """
from standfast import Standfast

sf = Standfast({url!r})
sf.queue("declared_in_code", attempts=3)
"""


def enqueued(cli: Cli, *words: str) -> str:
    """Enqueue a job, and give its id."""
    done = cli("enqueue", *words, "--json")
    assert done.exit_code == 0, done.output
    return str(json.loads(done.stdout)["id"])


@pytest.mark.usefixtures("every_store")
def test_a_job_is_found_by_a_beginning_of_its_id_that_no_other_has(cli: Cli) -> None:
    first = enqueued(cli, "mail", "1")
    assert json.loads(cli("status", first[:13], "--json").stdout)["id"] == first
    assert json.loads(cli("explain", first.replace("-", "").upper()[:12], "--json").stdout)["id"] == first
    second = enqueued(cli, "mail", "2")
    assert json.loads(cli("status", second[:-1], "--json").stdout)["id"] == second
    assert json.loads(cli("cancel", first[:30], "--json").stdout)["state"] == "cancelled"
    several = cli("cancel", second[:4])
    assert several.exit_code == USAGE
    assert first in several.stderr
    assert second in several.stderr
    assert "write more of it; nothing was changed" in several.stderr
    assert json.loads(cli("status", second, "--json").stdout)["state"] == "queued"


@pytest.mark.usefixtures("every_store")
def test_too_little_of_an_id_names_no_job(cli: Cli) -> None:
    """With one job in the store, a slip of the finger would otherwise cancel it."""
    only = enqueued(cli, "mail", "1")
    assert cli("cancel", only[:3]).exit_code == NOT_FOUND
    assert cli("status", "ffff0000").exit_code == NOT_FOUND
    assert json.loads(cli("status", only, "--json").stdout)["state"] == "queued"


@pytest.mark.usefixtures("every_store")
def test_letters_workflows_and_redrives_are_found_by_beginnings_too(cli: Cli, here: Path) -> None:
    (here / "app.py").write_text(
        "from standfast import Permanent, Standfast\n"
        "sf = Standfast()\n"
        "@sf.handler('refused')\n"
        "async def refused(job):\n    raise Permanent('no')\n"
    )
    dead = json.loads(cli("run", "app:sf", "refused", "--json").stdout)["operation_id"]
    assert json.loads(cli("dead", "show", dead[:-2], "--json").stdout)["id"] == dead
    plan = json.loads(cli("dead", "plan", "--json").stdout)["token"]
    assert json.loads(cli("dead", "redrive", plan[:-3], "--json").stdout)["id"] == plan
    assert [each["id"] for each in json.loads(cli("dead", "redrives", "--json").stdout)["items"]] == [plan]
    assert json.loads(cli("dead", "discard", dead[:-2], "--reason", "x", "--json").stdout)["id"] == dead

    async def started() -> str:
        async with Standfast() as sf:
            flow = sf.workflow("flow")
            flow.step("later", "refused", delay=3600)
            return await flow.start()

    flow = asyncio.run(started())
    assert json.loads(cli("workflow", "show", flow[:-1], "--json").stdout)["id"] == flow


def test_the_address_of_the_store_may_stand_before_the_command(cli: Cli, here: Path) -> None:
    job = enqueued(cli, "mail", "1", "--url", "other.db")
    found = cli("--url", "other.db", "status", job, "--json")
    assert json.loads(found.stdout)["id"] == job
    assert cli("status", job).exit_code == NOT_FOUND
    nearest = cli("--url", "nowhere.db", "dead", "list", "--url", "other.db", "--json")
    assert json.loads(nearest.stdout)["items"] == []
    assert sorted(path.name for path in here.glob("*.db")) == ["other.db"]


@pytest.mark.usefixtures("every_store")
def test_an_application_may_stand_in_place_of_the_address(cli: Cli, here: Path, monkeypatch) -> None:
    """Looking publishes nothing of its code."""
    import os  # noqa: PLC0415 - what the fixture set

    (here / "shop.py").write_text(APPLICATION.format(url=os.environ.get("STANDFAST_URL", "shop.db")))
    monkeypatch.delenv("STANDFAST_URL", raising=False)
    job = enqueued(cli, "shop:sf", "mail", "1")
    assert json.loads(cli("status", "shop:sf", job, "--json").stdout)["id"] == job
    assert json.loads(cli("--url", "elsewhere.db", "jobs", "--json").stdout or "null") is None
    assert [each["id"] for each in json.loads(cli("jobs", "shop:sf", "--json").stdout)["items"]] == [job]
    queues = json.loads(cli("queue", "list", "shop:sf", "--json").stdout)["items"]
    assert [each["name"] for each in queues] == ["mail"]
    assert cli("dead", "list", "--limit", "5", "shop:sf").exit_code == 0
    assert "shop.db" in cli("config", "shop:sf").stdout or "postgres" in cli("config", "shop:sf").stdout
    assert not (here / "standfast.db").exists()


def test_a_name_of_the_same_form_stays_a_name(cli: Cli, here: Path) -> None:
    """Queues and sessions may be called so: no module is, or the command needs a name there."""
    job = enqueued(cli, "orders:new", "1")
    for module in ("orders", "agent"):
        (here / f"{module}.py").write_text("raise RuntimeError('this is imported for no name')\n")
    assert json.loads(cli("status", job, "--json").stdout)["queue"] == "orders:new"
    assert cli("inbox", "agent:main").stdout == "no unread messages\n"
    assert cli("queue", "pause", "orders:new").exit_code == 0
    unknown = cli("stats", "nothing:here")
    assert unknown.exit_code == USAGE
    assert "there is no module 'nothing'" in unknown.stderr


@pytest.mark.usefixtures("every_store")
def test_workers_and_alerts_are_listed(cli: Cli) -> None:
    enqueued(cli, "mail", "1")
    none = cli("workers")
    assert none.exit_code == 1
    assert "start one with: standfast worker" in none.stdout
    assert json.loads(cli("workers", "--json").stdout) == {"items": []}
    assert cli("alerts", "list").stdout == "no open alerts\n"
    assert json.loads(cli("alerts", "list", "--json").stdout) == {"items": []}
