"""workflow show, workflow list, workflow cancel."""

import asyncio
import json
from typing import Any

import pytest

from standfast import Permanent, Standfast
from standfast.testing import drain
from standfast.wings.workflows.workflow_drawing import DEEPEST, bar, lines, mermaid


@pytest.fixture
def flow(here) -> str:  # noqa: ARG001 - the store is there
    """Leave a workflow that is stuck; give its id."""
    return asyncio.run(stuck())


async def stuck() -> str:
    def work(job: Any) -> str:
        if job.payload == "parse":
            raise Permanent("no such format")
        return str(job.payload)

    async with Standfast() as sf:
        sf.handler("work")(work)
        flow = sf.workflow("nightly")
        for name, after in {"fetch": [], "parse": ["fetch"], "copy": ["fetch"], "merge": ["parse", "copy"]}.items():
            flow.step(name, "work", name, after=after)
        started = await flow.start()
        await drain(sf)
    return started


def test_a_workflow_is_drawn_with_its_states(cli, flow):
    shown = cli("workflow", "show", flow)
    assert shown.exit_code == 1
    head, progress, *steps = shown.output.splitlines()
    assert head.split() == ["workflow", "nightly", flow, "stuck"]
    assert progress == "[###############---------------] 2 of 4 steps completed"
    assert [line.split("  after")[0].split() for line in steps] == [
        ["✔", "fetch", "completed"],
        ["└", "✘", "parse", "dead"],
        ["└", "✔", "copy", "completed"],
        ["└", "…", "merge", "waiting"],
    ]
    assert [len(line) - len(line.lstrip()) for line in steps] == [0, 2, 2, 4]
    assert steps[-1].endswith("waits for step parse, which died: handler_refused")


def test_a_workflow_is_drawn_for_mermaid(cli, flow):
    shown = cli("workflow", "show", flow, "--mermaid").output
    assert shown.startswith('flowchart TD\n    s0["fetch<br/>completed"]\n')
    assert "    s0 --> s1\n    s0 --> s2\n    s1 --> s3\n    s2 --> s3\n" in shown
    assert "    class s1 dead\n" in shown


def test_json_is_what_get_gives(cli, flow):
    shown = json.loads(cli("workflow", "show", flow, "--json").output)
    assert (shown["id"], shown["state"], shown["steps"]["copy"]["result"]) == (flow, "stuck", "copy")


def test_a_workflow_is_found_by_the_job_of_one_of_its_steps(cli, flow):
    step = json.loads(cli("workflow", "show", flow, "--json").output)["steps"]["copy"]["job_id"]
    assert json.loads(cli("workflow", "show", step, "--json").output)["id"] == flow


def test_workflows_are_listed_and_cancelled(cli, flow):
    assert flow in cli("workflow", "list", "--state", "stuck").output
    assert cli("workflow", "list", "--state", "running").output == "no workflow is running\n"
    assert json.loads(cli("workflow", "list", "--json").output)["items"][0]["completed"] == 2
    assert cli("workflow", "cancel", flow).output == "workflow nightly: 2 of 4 steps cancelled\n"
    assert cli("workflow", "show", flow).exit_code == 1
    assert "cancelled" in cli("workflow", "list").output


@pytest.mark.usefixtures("flow")
def test_an_unknown_workflow_is_not_found(cli):
    for verb in ("show", "cancel"):
        assert cli("workflow", verb, "nope").exit_code == 3


def test_health_names_what_is_stuck(cli, flow):
    assert f"workflow nightly is stuck: 1 step stopped, 2 not done; see standfast workflow show {flow}" in (
        cli("health").output
    )


def drawn(steps: dict[str, list[str]]) -> dict[str, Any]:
    shown = {
        name: {"state": "waiting", "view": "waiting", "after": after, "reason": None} for name, after in steps.items()
    }
    return {"total": len(steps), "completed": 0, "steps": shown}


def test_what_lies_deep_stays_on_the_screen():
    chain = {str(n): [str(n - 1)] if n else [] for n in range(100)}
    last = lines(drawn(chain))[-1].drawn
    assert last == f"{'  ' * DEEPEST}└ (99) … 99"


def test_many_parents_are_not_all_named():
    wide = {**{str(n): [] for n in range(10)}, "last": [str(n) for n in range(10)]}
    assert lines(drawn(wide))[-1].said == "waiting  after 0, 1, 2, 3 and 6 more"


def test_a_step_that_comes_later_is_drawn_below_what_it_waits_for():
    assert [line.drawn.strip(" └…") for line in lines(drawn({"a": [], "b": ["a"], "c": ["b"], "d": []}))] == list(
        "adbc"
    )


def test_a_hostile_name_is_only_text_to_mermaid():
    shown = mermaid(drawn({'x"]; click s0 "javascript:alert(1)" <script>': []}))
    assert '"]; click' not in shown.replace('<br/>waiting"]', "")
    assert "<script>" not in shown


def test_a_bar_is_full_only_at_the_end():
    assert bar({"total": 1000, "completed": 999}).count("#") == 29
    assert bar({"total": 1000, "completed": 1000}).count("#") == 30
