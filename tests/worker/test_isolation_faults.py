"""What goes wrong between a worker and the children of `isolate=True`: no job runs twice at once, none is lost."""

from __future__ import annotations

import pytest

from standfast import Standfast
from tests.waiting import ended, seen
from tests.worker.unruly_app import REPORTS, WORSE_THAN_NONE, is_running, register

pytestmark = pytest.mark.long_on_postgres  # the child process neither opens nor asks a store


@pytest.fixture
def unruly(disk: Standfast) -> Standfast:
    register(disk)
    return disk


@pytest.mark.parametrize("how", WORSE_THAN_NONE)
async def test_a_child_that_cannot_be_followed_is_over_before_its_attempt_is(unruly, tmp_path, how):
    said = tmp_path / "pids"
    async with unruly.worker():
        job = await ended(unruly, (await unruly.enqueue("spoils", {"said": str(said), "how": how})).id)
    lines = [line.split() for line in said.read_text().splitlines()]
    assert [others for _, others in lines] == ["0", "0"]
    assert not any(is_running(int(pid)) for pid, _ in lines)
    assert (job.state, [(line.reason_code, line.landed) for line in job.history]) == (
        "dead",
        [("process_died", "maybe")] * 2,
    )


async def test_a_child_that_was_spoiled_after_its_job_is_replaced_by_another(unruly, tmp_path):
    async with unruly.worker():
        first = await ended(unruly, (await unruly.enqueue("spoils_later", str(tmp_path / "one"))).id)
        (tmp_path / "one.told").touch()
        await seen((tmp_path / "one.done").exists)
        second = await ended(unruly, (await unruly.enqueue("spoils_later", str(tmp_path / "two"))).id)
    assert (second.state, second.attempts, second.deferrals) == ("completed", 1, 0)
    assert second.result != first.result
    assert not is_running(first.result)


@pytest.mark.parametrize("what", REPORTS)
async def test_progress_is_checked_and_kept_as_it_is_without_isolation(unruly, what):
    async with unruly.worker():
        in_child = await ended(unruly, (await unruly.enqueue("reports", what)).id)
        in_thread = await ended(unruly, (await unruly.enqueue("reports_in_thread", what)).id)
    assert (in_child.state, in_child.attempts, in_child.result) == ("completed", 1, in_thread.result)
    assert shown(in_child) == shown(in_thread)


def shown(job):
    """Give what is shown of a job's progress, without when."""
    return job.progress and {name: value for name, value in job.progress.items() if name != "at"}
