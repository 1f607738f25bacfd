"""The event queue's story: events in a burst, a broken master that jumps the line, a session that is followed."""

from __future__ import annotations

import os
from typing import Any

from msgspec.structs import replace

from standfast.testing import drain, memory
from standfast.wings.ingest.verbs import receive
from tests.core.deliveries import encoded, event, github, pull_request, workflow_run
from tests.waiting import job_of

PR = pull_request()
BURST = [
    ("pull_request", event("synchronize", pull_request=PR)),
    ("pull_request_review", event("submitted", review={"state": "approved"}, pull_request=PR)),
    ("pull_request_review_comment", event("created", comment={"body": "And here?"}, pull_request=PR)),
]


async def deliver(sf: Any, name: str, body: dict[str, Any], delivery: str) -> dict[str, Any]:
    """Have GitHub send an event; give the answer."""
    raw = encoded(body)
    status, answer = await receive(sf, "github", github(name, raw, delivery, secret=None), raw)
    assert status in {200, 201}, answer
    return answer


def take_github(sf: Any) -> None:
    """Take GitHub's deliveries without a signature, which other tests are about."""
    sf.settings = replace(sf.settings, ingest={"github": {"unsigned": True, "login": "bob"}})


async def test_three_events_in_five_seconds_on_one_pull_request_are_one_run(app):
    """The latest payload, the highest priority, the first time it was seen; and each delivery is remembered."""
    take_github(app)
    ran = []

    @app.handler("github")
    async def session(job):
        ran.append(job.payload)

    answers = []
    for number, (name, body) in enumerate(BURST):
        answers.append(await deliver(app, name, body, f"d-{number}"))
        app.clock.advance(2)
    first = await job_of(app, answers[0]["id"])
    assert [each["outcome"] for each in answers] == ["accepted", "coalesced", "coalesced"]
    assert {each["id"] for each in answers} == {first.id}
    assert (first.priority, first.payload["trigger"]) == (60, "pr_update_review")
    assert first.coalesced is not None
    assert [each.get("trigger") for each in first.coalesced["last"]] == ["pr_update_general", "pr_update_approved"]
    assert first.first_seen_at == first.created_at
    assert await drain(app) == {"github": 1}
    assert [payload["external_id"] for payload in ran] == ["d-2"]
    for number, (name, body) in enumerate(BURST):
        assert (await deliver(app, name, body, f"d-{number}"))["outcome"] == "duplicate", "it was answered before"
    assert await drain(app) == {}


async def test_a_broken_master_jumps_the_line(app):
    take_github(app)
    ran = []

    @app.handler("github")
    async def session(job):
        ran.append((job.payload["trigger"], job.payload["number"]))

    comment = {"body": "Could @bob look at this stale one?"}
    for number in (3, 4, 5):
        body = event("created", comment=comment, issue=pull_request(number))
        await deliver(app, "issue_comment", body, f"m-{number}")
        app.clock.advance(1)
    await deliver(app, "workflow_run", event("completed", sender="bob", workflow_run=workflow_run()), "ci-1")
    suite = workflow_run("timed_out")
    again = await deliver(app, "check_suite", event("completed", check_suite=suite), "ci-2")
    assert again["outcome"] == "coalesced", "one build that fails in many ways is one thing to mend"
    async with app.worker(concurrency=1):
        await app.wait(again["id"], 10)
        waiting = [job.id for job in await app.jobs(queue="github") if not job.settled]
        for job_id in waiting:
            await app.wait(job_id, 10)
    assert ran == [("ci_failure_master", None), ("mention", 3), ("mention", 4), ("mention", 5)]


async def test_a_session_is_followed_to_its_end_and_not_to_its_launch(tmp_path, monkeypatch):
    """What is dispatched is a command: its outcome comes back to the queue, and is tried again where that helps."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "standfast.toml").write_text(
        """
[ingest.github]
unsigned = true
queue = "sessions"
[queues.sessions]
command = "session"
backoff = "none"
[commands.session]
argv = ["sh", "-c", 'echo "$1" >> ran; test $(wc -l < ran) -ge 2 || exit 75; echo handled', "sh", "{payload.url}"]
cwd = "CWD"
""".replace("CWD", os.fspath(tmp_path))
    )
    async with memory() as sf:
        answer = await deliver(sf, "issues", event("assigned", issue=PR), "d-1")
        await drain(sf)
        job = await job_of(sf, answer["id"])
        assert (job.state, job.attempts, job.result["stdout"]) == ("completed", 2, "handled\n")
        assert [line.error_kind for line in job.history] == ["exit_75"]
        assert (tmp_path / "ran").read_text() == f"{PR['html_url']}\n" * 2
