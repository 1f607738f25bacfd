"""The issues health tells, in the words the REST contract pins."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from standfast.rules import QueueRules, queue_rules
from standfast.wings.health.health_words import Conflict, at_rest
from standfast.wings.health.queue_findings import QueueFacts
from standfast.wings.health.rules import MissingWorker, StoreFacts, issues, status
from standfast.wings.limits.outages import Outage
from standfast.wings.records.figures import number

IDLE = QueueFacts(
    queue="mail",
    due=0,
    letters=0,
    oldest_due_seconds=None,
    claimed_recently=False,
    handler_known=True,
    live_workers=1,
    rules=QueueRules(depth_warning=30, dead_warning=10),
)
STORE = StoreFacts(queues=(IDLE,), sweep_age=5.0, sweep_every=30.0)
SIDES = ("pid 12 on web-1 has attempts=3", "pid 40 on web-2 has attempts=7")
DIFFER = (
    "mail: two live processes declare different rules: pid 12 on web-1 has attempts=3, pid 40 on web-2 has attempts=7; "
    "start both from the same code"
)
UNSWEPT = ", so jobs of lost workers are not recovered; start a worker: standfast worker app:sf"
UNSERVED = "and no worker serves this queue; no handler is known, so check the queue's name"
REMOVED = (
    "the store's file was removed, replaced or cut short while in use (noticed 7 s ago): accepted jobs may be lost"
)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, []),
        ({"letters": 10}, []),
        ({"letters": 12}, ["mail: 12 dead letters"]),
        ({"letters": 1, "rules": QueueRules(dead_warning=0)}, ["mail: 1 dead letter"]),
        ({"due": 30}, []),
        ({"due": 31}, ["mail: 31 pending (backed up)"]),
        ({"due": 31, "claimed_recently": True}, ["mail: 31 pending (backed up)"]),
        ({"due": 1, "oldest_due_seconds": 59.9}, []),
        ({"due": 1, "oldest_due_seconds": 60.0}, ["mail: 1 job has been due for 1 min and its workers start nothing"]),
        (
            {"due": 2, "oldest_due_seconds": 240.0, "silent": 2},
            ["mail: 2 jobs are due, the oldest for 4 min, and its workers start nothing"],
        ),
        ({"due": 1, "oldest_due_seconds": 3599.0, "claimed_recently": True}, []),
        ({"claimed_recently": True, "suspects": (2, 59.0)}, []),
        (
            {"claimed_recently": True, "suspects": (2, 75.0)},
            ["mail: 2 jobs of a worker that died wait to run alone, for 1 min 15 s"],
        ),
        ({"suspects": (1, 75.0)}, ["mail: 1 job of a worker that died waits to run alone, for 1 min 15 s"]),
        ({"suspects": (2, 75.0), "paused": True}, []),
        (
            {"due": 1, "oldest_due_seconds": 7200.0, "claimed_recently": True},
            ["mail: a job has been due for 2 h while others ran"],
        ),
        (
            {"due": 30, "oldest_due_seconds": 7200.0, "claimed_recently": True, "rules": QueueRules(depth_warning=29)},
            ["mail: 30 pending (backed up)"],
        ),
        ({"deferred": 1}, ["mail: 1 job deferred for more than an hour"]),
        ({"due": 3, "live_workers": 0}, ["mail: 3 jobs are due and no worker serves this queue"]),
        ({"due": 1, "live_workers": 0}, ["mail: 1 job is due and no worker serves this queue"]),
        ({"live_workers": 0}, []),
        (
            {"due": 1, "live_workers": 0, "oldest_due_seconds": 240.0, "silent": 1},
            ["mail: 1 job has been due for 4 min and no worker serves this queue"],
        ),
        (
            {"due": 2, "live_workers": 0, "oldest_due_seconds": 240.0, "silent": 2, "handler_known": False},
            [f"mail: 2 jobs are due, the oldest for 4 min, {UNSERVED}"],
        ),
        (
            {"due": 1, "live_workers": 0, "oldest_due_seconds": 240.0, "silent": 1, "paused": True},
            ["mail: 1 job has been due for 4 min and no worker serves this queue; the queue is paused"],
        ),
        (
            {"due": 1, "live_workers": 0, "silent": 2},
            ["mail: 1 job is due and no worker serves this queue", "mail: 2 jobs are stuck"],
        ),
        ({"handler_known": False}, ["mail: no handler is known"]),
        ({"abandoned": 2}, ["mail: 2 running jobs of a silent worker, and no worker is alive"]),
        ({"silent": 2}, ["mail: 2 jobs are stuck"]),
        ({"silent": 1, "paused": True}, ["mail: 1 job is stuck, because the queue is paused"]),
        ({"paused": True}, []),
        ({"paused": True, "due": 1, "oldest_due_seconds": 7200.0}, []),
        ({"overdue": 2}, ["mail: 2 handlers past their timeout"]),
        ({"overdue": 1}, ["mail: 1 handler past its timeout"]),
        (
            {"letters": 12, "due": 35, "live_workers": 0},
            [
                "mail: 35 jobs are due and no worker serves this queue",
                "mail: 12 dead letters",
                "mail: 35 pending (backed up)",
            ],
        ),
        (
            {"letters": 12, "due": 35, "handler_known": False},
            ["mail: no handler is known", "mail: 12 dead letters", "mail: 35 pending (backed up)"],
        ),
    ],
)
def test_queue(facts, expected):
    assert issues(replace(STORE, queues=(replace(IDLE, **facts),))) == expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"sweep_age": 60.0}, []),
        (
            {"blocking_handlers": ("mail/send",)},
            ["mail/send: blocks its worker's event loop, so that every queue waits; let it await, or be a plain def"],
        ),
        (
            {"unstarted": ("mail/send: [Errno 11] no: not now",)},
            ["mail/send: no process can be started for it, so its jobs are deferred: [Errno 11] no: not now"],
        ),
        ({"removed_ago": 86401.0}, []),
        ({"removed_ago": 7.4}, [REMOVED]),
        ({"sweep_age": 300.4, "working_for": 61.0}, [f"sweeper last ran 5 min ago{UNSWEPT}"]),
        ({"sweep_age": 300.4, "working_for": 60.0}, []),
        ({"sweep_age": 300.4}, []),
        ({"sweep_age": None}, []),
        (
            {"absences": (MissingWorker("h", 7, 4.0, "dead", (("mail/send", 2), ("sms/sms", 1))),)},
            ["worker on h, pid 7, died, last heard of 4 s ago; it ran mail/send (2), sms/sms (1)"],
        ),
        (
            {"absences": (MissingWorker("h", 7, 13.1, "unknown"), MissingWorker("h", 8, 13.0, "unknown"))},
            ["worker on h, pid 7, has been silent for 13 s; it runs nothing"],
        ),
        (
            {
                "absences": (
                    MissingWorker("h", 7, 30.1, "alive", (("mail/mail", 1),)),
                    MissingWorker("h", 8, 30.0, "alive"),
                )
            },
            ["worker on h, pid 7, has been silent for 30 s; it runs mail/mail (1)"],
        ),
        (
            {
                "absences": (
                    MissingWorker("h", 7, 4, "dead", calls=True),
                    MissingWorker("h", 8, 5, "dead", (("a/b", 1),), calls=True),
                )
            },
            ["worker on h, pid 8, died, last heard of 5 s ago; it ran a/b (1)"],
        ),
        (
            {"absences": tuple(MissingWorker("h", pid, pid, "dead") for pid in range(7, 0, -1))},
            [
                *(f"worker on h, pid {pid}, died, last heard of {pid} s ago; it ran nothing" for pid in range(1, 6)),
                "2 more workers died or fell silent",
            ],
        ),
        ({"disk_low": True}, ["disk is low: new work is refused"]),
        ({"clock_jumped": True}, ["clock jumped"]),
        (
            {"outages": (Outage("http://crm:80", datetime(2026, 1, 2, 11, 45, tzinfo=UTC), 360.0),)},
            ["http://crm:80 has not answered since 2026-01-02 11:45 UTC; next try in 6 min"],
        ),
        (
            {"disabled_handlers": (("mail/send", "HTTP 503", 61.0, False), ("mail/read", "HTTP 503", 61.0, True))},
            [
                "mail/send: disabled for 1 min 1 s, because what it requires says no: HTTP 503",
                "mail/read: disabled in one process, while another runs it, because what it requires says no: HTTP 503",
            ],
        ),
        ({"broken_gates": (("mail", "it answered None"),)}, ["mail: its gate counts as closed: it answered None"]),
        ({"conflicting_declarations": (Conflict("mail", SIDES),)}, [f"{DIFFER}, or set it in standfast.toml"]),
        (
            {"conflicting_declarations": (Conflict("mail/send", SIDES),)},
            [DIFFER.replace("mail:", "mail/send:")],
        ),
        (
            {"conflicting_declarations": (Conflict("mail", SIDES),), "overruled_declarations": ("chat", "mail")},
            [
                f"{DIFFER}, or set it in standfast.toml",
                "chat: a live worker declares other rules than those in force; run one version everywhere",
            ],
        ),
        (
            {"fallbacks": (("feedback", 3), ("mail", 1))},
            ["feedback: 3 calls went to their fallback", "mail: 1 call went to its fallback"],
        ),
        (
            {"failing_sinks": (("ops", 7.0, "HTTP 503"), ("subscriber crm", 7.0, "HTTP 503"))},
            ["ops takes no alerts for 7 s: HTTP 503", "subscriber crm takes no notices for 7 s: HTTP 503"],
        ),
        ({"queues": ()}, []),
    ],
)
def test_store(facts, expected):
    assert issues(replace(STORE, **facts)) == expected


@pytest.mark.parametrize("sweep_age", [None, 300.0])
@pytest.mark.parametrize(
    ("left", "named"),
    [
        ({"queues": (replace(IDLE, due=1, oldest_due_seconds=61.0, claimed_recently=True),)}, True),
        ({"queues": (replace(IDLE, abandoned=1),)}, True),
        ({"absences": (MissingWorker("h", 7, 14.0, "unknown", (("mail/mail", 1),), holds=1),)}, True),
        ({"absences": (MissingWorker("h", 7, 14.0, "dead", (("mail/mail", 1),)),)}, False),
        ({}, False),
    ],
)
def test_a_sweeper_that_does_not_run_shows_where_there_is_something_to_sweep(sweep_age, left, named):
    """A store whose last worker left in order needs none."""
    found = issues(replace(STORE, sweep_age=sweep_age, **left))
    assert any(issue.startswith("sweeper") for issue in found) is named


@pytest.mark.parametrize(("waited", "expected"), [(60.0, []), (61.0, [f"sweeper has never run{UNSWEPT}"]), (None, [])])
def test_a_sweeper_that_never_ran_shows_once_work_waits(waited, expected):
    busy = replace(IDLE, due=1, oldest_due_seconds=waited, claimed_recently=True)
    assert issues(replace(STORE, queues=(busy,), sweep_age=None)) == expected


def test_what_hurts_most_comes_first_and_outages_before_all_that_follows_from_them():
    queues = (replace(IDLE, queue="analytics_ingest", letters=12), replace(IDLE, queue="identity_provision", due=35))
    away = Outage("CRM", datetime(2026, 1, 2, 11, 45, tzinfo=UTC), None)
    found = issues(replace(STORE, queues=queues[::-1], disk_low=True, clock_jumped=True, outages=(away,)))
    assert found == [
        "disk is low: new work is refused",
        "CRM has not answered since 2026-01-02 11:45 UTC; it is being tried now",
        "analytics_ingest: 12 dead letters",
        "identity_provision: 35 pending (backed up)",
        "clock jumped",
    ]


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"total_dead_letter": 5, "total_awaiting_consent": 2}, "3 dead letters, 2 jobs waiting for consent"),
        ({"total_dead_letter": 5}, "5 dead letters"),
        ({"total_dead_letter": None, "total_awaiting_consent": None, "paused_queues": None}, ""),
    ],
    ids=["both", "a server of an earlier version", "the store is away"],
)
def test_what_rests_is_worded_by_what_it_waits_for(counts, said):
    assert at_rest({"paused_queues": 0, **counts}) == said


def test_one_issue_is_enough_to_be_degraded():
    assert status([]) == "healthy"
    assert status(["clock jumped"]) == "degraded"


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"new_letters": 10}, []),
        ({"new_letters": 11}, ["mail: 11 dead letters in the last 10 minutes (growing)"]),
        ({"new_letters": 10, "rules": queue_rules(dead_warning=0)}, []),
        ({"new_letters": 50, "rules": queue_rules(dead_warning=50)}, []),
        ({"awaiting_consent": 10}, []),
        ({"awaiting_consent": 12}, ["mail: 12 jobs wait for consent"]),
        ({"awaiting_consent": 1, "rules": queue_rules(dead_warning=0)}, ["mail: 1 job waits for consent"]),
        ({"denials": 4}, []),
        ({"denials": 5}, ["mail: 5 replays denied in the last hour"]),
    ],
)
def test_letters_that_grow_and_replays_that_are_denied(known, expected):
    queue = replace(IDLE, queue="mail", **known)
    assert issues(StoreFacts((queue,), sweep_age=1.0, sweep_every=10.0)) == expected


def test_what_is_wrong_with_the_policy_is_an_issue():
    assert issues(StoreFacts((), sweep_age=1.0, sweep_every=10.0, policy_issue="policy: no")) == ["policy: no"]


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"silent": 10_000}, f"mail: {number(10_000)} jobs are stuck"),
        (
            {"silent": 10_000, "due": 1_000_000, "uncounted": {"silent"}},
            f"mail: its jobs are stuck; {number(1_000_000)} are due",
        ),
        ({"silent": 10_000, "uncounted": {"silent"}}, "mail: many of its jobs are stuck"),
        (
            {"deferred": 10_000, "parked": 1_200_000, "uncounted": {"deferred"}},
            f"mail: of {number(1_200_000)} jobs that wait at a gate, many are deferred for more than an hour",
        ),
    ],
)
def test_no_number_is_less_than_what_there_is(known, expected):
    queue = replace(IDLE, queue="mail", **{**known, "uncounted": frozenset(known.get("uncounted", ()))})
    assert expected in issues(StoreFacts((queue,), sweep_age=1.0, sweep_every=10.0))
