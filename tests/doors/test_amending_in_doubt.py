"""A letter whose effect may exist is not amended, whichever door is asked; each says which effect, and what to do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from runpy import run_path

import pytest

from standfast import Effect, Standfast
from standfast.testing import drain
from tests.doors.stages import job_of, told
from tests.doors.test_rest import Clients

APP = """
from pathlib import Path
from standfast import Effect, Standfast, Transient

sf = Standfast()
sf.queue("charge", attempts=1)

def find(job, effect):
    if Path("away").exists():
        raise Transient("the bank does not answer")
    return Path(effect.key).exists()

@sf.handler("charge", replay="verify_first", effects=[Effect("card", find)])
def charge(job):
    with job.effect("card") as e:
        Path(e.key).touch()
        if Path("away").exists():
            raise RuntimeError("500 after the charge")
"""


async def work_off(here: Path) -> None:
    """Run what is due with the application's handlers."""
    async with run_path(str(here / "bank.py"))["sf"] as sf:
        await drain(sf)


@pytest.mark.usefixtures("every_store")
def test_the_command_says_which_effect_may_exist_and_how_to_look(cli, here):
    (here / "bank.py").write_text(APP)
    (here / "away").touch()
    job_id = job_of(cli, "charge", '{"amount": 1}')
    asyncio.run(work_off(here))
    charge = here / f"{job_id}.card"
    assert charge.exists()
    for names in ([job_id], ["bank:sf", job_id]):
        refused = cli("dead", "amend", *names, '{"amount": 2}', "--reason", "wrong amount")
        assert refused.exit_code == 1
        assert f"effect 'card' (key {job_id}.card) of job {job_id} may exist" in refused.stderr
        assert f"standfast dead resolve app:sf {job_id}" in refused.stderr
        assert refused.stderr.count("\n") == 1
    (here / "away").unlink()
    charge.unlink()
    assert "card absent" in cli("dead", "resolve", "bank:sf", job_id, "--reason", "look").stderr
    code, amended = told(cli, "dead", "amend", job_id, '{"amount": 2}', "--reason", "wrong amount")
    assert (code, amended["generation"]) == (0, 1)


@pytest.fixture
def sf(furnished: Standfast) -> Standfast:
    return furnished


async def test_rest_answers_409_and_names_the_effect(sf: Standfast) -> None:
    sf.queue("charge", attempts=1)

    @sf.handler("charge", replay="verify_first", effects=[Effect("card", lambda _job: "indeterminate")])
    async def charge(job):
        async with job.effect("card"):
            raise RuntimeError("500 after the charge")

    job_id = (await sf.enqueue("charge", {"amount": 1})).id
    await drain(sf)
    clients = Clients(sf)
    client = await clients.of("operator")
    answer = await client.post(
        f"/dead-letters/{job_id}/amend", json={"payload": {"amount": 2}, "reason": "wrong amount"}
    )
    problem = answer.json()
    assert (answer.status_code, problem["type"].rpartition("/")[2]) == (409, "not-verified")
    assert f"effect 'card' (key {job_id}.card) of job {job_id} may exist" in problem["detail"]
    assert f"standfast dead resolve app:sf {job_id}" in problem["detail"]
    assert "the detail names the next step" in problem["hint"]
    assert (await client.get(f"/jobs/{job_id}")).json()["generation"] == 0
    await clients.close()
