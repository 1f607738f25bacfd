"""The first minutes of a new user, as README.md has them."""

import json
import re
import runpy
import shlex
from pathlib import Path
from textwrap import indent
from typing import Any

from standfast.testing import drain, memory

README = (Path(__file__).parents[2] / "README.md").read_text()


def section(title: str) -> str:
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


async def run(program: str, **names: Any) -> dict[str, Any]:
    """Run lines that await, as if they stood in a function of the reader's; give what they named."""
    exec(f"async def reader():\n{indent(program, '    ')}\n    return locals()", names)  # noqa: S102 - the README's own
    found: dict[str, Any] = await names["reader"]()
    return found


def test_the_ten_lines_and_the_commands_below_them_meet_in_one_store(cli, here):
    [program] = re.findall(r"```python\n(.*?)```", section("Ten lines"), re.DOTALL)
    (here / "app.py").write_text(program)
    [enqueue] = re.findall(r"^\$ standfast (enqueue .*)$", section("Try it"), re.MULTILINE)
    assert cli(*shlex.split(enqueue)).exit_code == 0
    runpy.run_path("app.py", run_name="app")  # as `standfast worker app:sf` loads it: nothing runs
    runpy.run_path("app.py", run_name="__main__")
    jobs = json.loads(cli("jobs", "--json").stdout)["items"]
    assert {job["payload"]["user"] for job in jobs} == {"ann", "bob"}
    assert {job["handler"] for job in jobs} == {"identity_provision"}


async def test_the_calls_of_an_agent_give_what_their_comments_say():
    """Run as they stand, in the order they stand."""
    [program] = re.findall(r"```python\n(.*?)```", section("Agents: call now, or have it done"), re.DOTALL)
    async with memory() as sf:
        sf.handler("notes")(lambda job: {"kept": job.payload["text"]})
        sf.handler("summary")(lambda _job: "short")
        said = await run(program.replace("messages =", "await drain(sf)\nmessages ="), sf=sf, drain=drain)
        assert (said["reply"]["status"], said["reply"]["queue_reason"]) == ("queued", "deferred_submit")
        assert [message["kind"] for message in said["messages"]] == ["submit_done"]


async def test_the_workflow_and_the_schedule_run():
    """Run as they stand."""
    title = "Workflows, schedules, webhooks, commands"
    [program] = re.findall(r"```python\n(.*?)```", section(title), re.DOTALL)
    mailed = []
    async with memory() as sf:
        sf.handler("pay")(lambda job: job.payload["order"])
        sf.handler("pack")(lambda _job: "box")
        sf.handler("mail")(lambda job: mailed.append(dict(job.parents or {})))
        said = await run(program, sf=sf)
        await drain(sf)
        assert (await sf.workflows.get(said["workflow"]))["state"] == "completed"
        assert mailed == [{"pay": 7, "pack": "box"}]
        sf.clock.advance(7 * 24 * 3600)
        await drain(sf)
        assert len(mailed) > 1
