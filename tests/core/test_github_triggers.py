"""GitHub's events: which ask for work, as what, about which thread, and which do not and why."""

from __future__ import annotations

import time
from typing import Any

import pytest

from standfast.rules import TRIGGER_PRIORITIES
from standfast.wings.ingest.arrival import Arrival, Ignored, delivery
from standfast.wings.ingest.github import read
from standfast.wings.ingest.mentions import mentions
from standfast.wings.ingest.sources import Source, by_hand
from tests.core.deliveries import FORK, encoded, event, github, pull_request, workflow_run


def configured(**table: Any) -> Source:
    found = by_hand("github", {"github": {"login": "bob", **table}})
    assert found is not None
    return found


def read_event(name: str, body: dict[str, Any], **table: Any) -> Arrival | str:
    """Give the job that an event comes to, or why it comes to none."""
    raw = encoded(body)
    found = read(delivery(github(name, raw, secret=None), raw), configured(**table))
    if isinstance(found, Ignored):
        return found.reason
    assert isinstance(found, Arrival)
    return found


PR = pull_request()
MENTION = "Could @bob look at this?"
FOR_PR: dict[str, Any] = {"pull_requests": [{"number": 7, "base": {"repo": {"id": 1}}}], "event": "pull_request"}
FORKED = "@eve/site:main"
OF_THE_FORK = {"number": 3, "base": {"repo": FORK}}
APPROVED = {"state": "approved"}
COMMENTED = {"state": "commented"}
DISMISSED = {"state": "dismissed"}
COMMENT = {"body": "fine", "html_url": "https://github.com/acme/site/pull/7#c1"}
TABLE = [
    ("workflow_run", event("completed", workflow_run=workflow_run()), "ci_failure_master", "@main"),
    ("workflow_run", event("completed", workflow_run=workflow_run("timed_out")), "ci_failure_master", "@main"),
    ("workflow_run", event("completed", workflow_run=workflow_run("startup_failure")), "ci_failure_master", "@main"),
    ("workflow_run", event("completed", workflow_run=workflow_run(branch="fix")), "ci_failure_pr", "@fix"),
    ("workflow_run", event("completed", workflow_run=workflow_run(branch="fix", **FOR_PR)), "ci_failure_pr", "#7"),
    ("workflow_run", event("completed", workflow_run=workflow_run(branch="main", **FOR_PR)), "ci_failure_pr", "#7"),
    ("workflow_run", event("completed", workflow_run=workflow_run(head_repository=FORK)), "ci_failure_pr", FORKED),
    ("workflow_run", event("completed", workflow_run=workflow_run(event="pull_request")), "ci_failure_pr", "@abc123"),
    ("workflow_run", event("completed", workflow_run=workflow_run(branch=None)), "ci_failure_pr", "@abc123"),
    (
        "workflow_run",
        event("completed", workflow_run=workflow_run(branch="x", pull_requests=[OF_THE_FORK])),
        "ci_failure_pr",
        "@x",
    ),
    (
        "check_run",
        event("completed", check_run={"conclusion": "failure", "check_suite": {"head_branch": "main"}}),
        "ci_failure_master",
        "@main",
    ),
    (
        "check_run",
        event("completed", check_run={"conclusion": "timed_out", "check_suite": {"head_branch": "x"}, **FOR_PR}),
        "ci_failure_pr",
        "#7",
    ),
    ("check_suite", event("completed", check_suite=workflow_run()), "ci_failure_master", "@main"),
    ("check_suite", event("completed", check_suite=workflow_run(branch="x", **FOR_PR)), "ci_failure_pr", "#7"),
    ("status", event(state="failure", branches=[{"name": "x"}, {"name": "main"}]), "ci_failure_master", "@main"),
    ("status", event(state="error", branches=[{"name": "x"}]), "ci_failure_pr", "@x"),
    ("status", event(state="error", branches=[], sha="abc123"), "ci_failure_pr", "@abc123"),
    ("pull_request", event("assigned", pull_request=PR), "assign", "#7"),
    ("pull_request", event("review_requested", pull_request=PR), "assign", "#7"),
    ("pull_request", event("assigned", pull_request=pull_request(body=MENTION)), "assign", "#7"),
    ("issues", event("assigned", issue=PR), "assign", "#7"),
    ("pull_request_review", event("submitted", review=APPROVED, pull_request=PR), "pr_update_approved", "#7"),
    (
        "pull_request_review",
        event("submitted", review={"state": "approved", "body": MENTION}, pull_request=PR),
        "pr_update_approved",
        "#7",
    ),
    (
        "pull_request_review",
        event("submitted", review={"state": "changes_requested"}, pull_request=PR),
        "pr_update_review",
        "#7",
    ),
    ("pull_request_review", event("submitted", review=COMMENTED, pull_request=PR), "pr_update_review", "#7"),
    ("pull_request_review", event("dismissed", review=DISMISSED, pull_request=PR), "pr_update_review", "#7"),
    ("pull_request_review", event("edited", review=APPROVED, pull_request=PR), "pr_update_review", "#7"),
    (
        "pull_request_review",
        event("submitted", review={"state": "commented", "body": MENTION}, pull_request=PR),
        "mention",
        "#7",
    ),
    ("pull_request_review_comment", event("created", comment=COMMENT, pull_request=PR), "pr_update_review", "#7"),
    (
        "pull_request_review_comment",
        event("created", comment={"body": MENTION}, pull_request=PR),
        "mention",
        "#7",
    ),
    ("pull_request_review_thread", event("resolved", pull_request=PR), "pr_update_general", "#7"),
    ("issue_comment", event("created", comment={"body": MENTION}, issue=PR), "mention", "#7"),
    ("issue_comment", event("created", comment=COMMENT, issue=PR), "pr_update_general", "#7"),
    ("issue_comment", event("deleted", comment={"body": MENTION}, issue=PR), "pr_update_general", "#7"),
    ("issues", event("opened", issue=pull_request(body=MENTION)), "mention", "#7"),
    ("issues", event("closed", issue=pull_request(body=MENTION)), "pr_update_general", "#7"),
    ("pull_request", event("opened", pull_request=pull_request(body=MENTION)), "mention", "#7"),
    ("pull_request", event("synchronize", pull_request=pull_request(body=MENTION)), "pr_update_general", "#7"),
    ("pull_request", event("opened", pull_request=PR), "pr_update_general", "#7"),
    ("pull_request", event("closed", pull_request=PR), "pr_update_general", "#7"),
    ("pull_request", event("labeled", pull_request=PR), "pr_update_general", "#7"),
    (
        "pull_request",
        event("edited", pull_request=pull_request(body=MENTION), changes={"body": {"from": "Could you?"}}),
        "mention",
        "#7",
    ),
    (
        "pull_request",
        event("edited", pull_request=pull_request(body=MENTION), changes={"body": {"from": f"{MENTION} Please."}}),
        "pr_update_general",
        "#7",
    ),
    (
        "pull_request",
        event("edited", pull_request=pull_request(body=MENTION), changes={"title": {"from": "x"}}),
        "pr_update_general",
        "#7",
    ),
    ("commit_comment", event("created", comment={"body": MENTION, "commit_id": "abc123"}), "mention", "@abc123"),
    ("discussion", event("created", discussion=pull_request(9, MENTION)), "mention", "#9"),
    ("discussion_comment", event("created", comment={"body": MENTION}, discussion=pull_request(9)), "mention", "#9"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "body", "trigger", "thread"), TABLE)
def test_what_asks_for_work(name, body, trigger, thread):
    found = read_event(name, body)
    assert isinstance(found, Arrival), found
    assert (found.payload["trigger"], found.thread_key) == (trigger, f"github:acme/site{thread}")
    assert (found.queue, found.priority, found.key) == ("github", TRIGGER_PRIORITIES[trigger], "d-1")
    assert (found.labels["trigger"], found.labels["repo"]) == (trigger, "acme/site")


IGNORED = [
    ("ping", event(), "event 'ping' asks for nothing"),
    ("push", event(), "event 'push' asks for nothing"),
    ("workflow_run", event("requested", workflow_run=workflow_run()), "workflow_run requested is no end"),
    ("workflow_run", event("completed", workflow_run=workflow_run("success")), "ended as success, which is no failure"),
    ("workflow_run", event("completed", workflow_run=workflow_run("cancelled")), "ended as cancelled"),
    ("check_run", event("created", check_run={"conclusion": None}), "is no end"),
    ("check_run", event("completed", check_run={"conclusion": "neutral"}), "no failure"),
    ("check_suite", event("completed"), "ended as nothing"),
    ("status", event(state="pending", branches=[{"name": "main"}]), "status is pending"),
    ("commit_comment", event("created", comment=COMMENT), "mentions no configured login"),
    ("discussion", event("created", discussion=pull_request(9)), "mentions no configured login"),
    ("issue_comment", event("created", sender="bob", comment=COMMENT, issue=PR), "by bob itself"),
    ("issue_comment", event("created", sender="Bob[bot]", comment={"body": MENTION}, issue=PR), "by Bob[bot] itself"),
    ("pull_request", event("assigned", sender="BOB", pull_request=PR), "by BOB itself"),
]


@pytest.mark.parametrize(("name", "body", "why"), IGNORED)
def test_what_asks_for_nothing_says_why(name, body, why):
    found = read_event(name, body)
    assert isinstance(found, str)
    assert why in found


def test_a_failure_that_the_login_itself_has_caused_counts():
    """It pushed the commit: whom else should its broken build wake up?"""
    found = read_event("workflow_run", event("completed", sender="bob", workflow_run=workflow_run()))
    assert isinstance(found, Arrival)
    assert found.payload["sender"] == "bob"


def test_what_is_put_into_a_job():
    body = event("opened", pull_request=pull_request())
    found = read_event("pull_request", body, queue="reviews")
    assert isinstance(found, Arrival)
    digest = found.payload.pop("body_sha256")
    assert len(digest) == 64
    assert found.queue == "reviews"
    assert found.payload == {
        "trigger": "pr_update_general",
        "source": "github",
        "external_id": "d-1",
        "repo": "acme/site",
        "number": 7,
        "title": "Mend the site",
        "url": "https://github.com/acme/site/pull/7",
        "sender": "alice",
    }
    assert found.labels == {"trigger": "pr_update_general", "event": "pull_request.opened", "repo": "acme/site"}


def test_priorities_can_be_set_and_triggers_turned_off():
    body = event("opened", pull_request=PR)
    found = read_event("pull_request", body, triggers={"pr_update_general": 5})
    assert isinstance(found, Arrival)
    assert found.priority == 5
    found = read_event("pull_request", body, triggers={"pr_update_general": 0})
    assert isinstance(found, Arrival)
    assert found.priority == 0
    assert read_event("pull_request", body, triggers={"pr_update_general": False}) == (
        "trigger pr_update_general is turned off"
    )


def test_text_from_outside_is_data():
    title = "\x1b[31m<script>\u202e{{7*7}}"
    body = event("opened", pull_request={"number": 7, "title": title + "x" * 5000})
    found = read_event("pull_request", body)
    assert isinstance(found, Arrival)
    assert found.payload["title"].startswith(title)
    assert len(found.payload["title"]) == 1000
    odd = event("opened", pull_request={"number": 7, "title": "a\0b\ud800c"})
    found = read_event("pull_request", odd)
    assert isinstance(found, Arrival)
    assert found.payload["title"] == "a\ufffdb\ufffdc"


@pytest.mark.parametrize(
    "body",
    [
        {},
        event("opened"),
        {**event("opened"), "repository": None, "sender": []},
        event("opened", pull_request=[1]),
        event("opened", pull_request={"number": True, "title": 5, "html_url": {}}),
        event("opened", pull_request={"number": -1}),
    ],
)
def test_a_body_of_another_shape_is_taken_for_what_it_has(body):
    found = read_event("pull_request", body)
    assert isinstance(found, Arrival)
    assert found.thread_key is None
    assert found.payload["number"] is None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("@bob", True),
        ("hey @Bob, look", True),
        ("(@bob)", True),
        ("@bob.", True),
        ("> @bob", True),
        ("@bobby", False),
        ("@bob-x", False),
        ("@bob/team", False),
        ("mail@bob", False),
        ("a.@bob", False),
        ("@@bob", False),
        ("`@bob`", False),
        ("```\n@bob\n```", False),
        ("```\ncode\n``` @bob", True),
        ("`never closed @bob", True),
        ("<!-- @bob -->", False),
        ("<!-- @bob", False),
        ("<!-- x --> @bob", True),
        ("@bo", False),
        ("", False),
        (None, False),
        (["@bob"], False),
    ],
)
def test_who_is_mentioned(text, meant):
    assert mentions(text, ["bob"]) is meant
    assert mentions(text, []) is False


@pytest.mark.parametrize("piece", ["<!--", "```", "`", "@bob-", "@", "<!-- -->"])
def test_any_text_is_read_in_linear_time(piece):
    started = time.process_time()
    mentions(piece * 200_000, ["bob"])
    assert time.process_time() - started < 1.0
