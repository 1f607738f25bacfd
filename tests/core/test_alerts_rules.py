"""When alerts begin and are over, and how much each hurts."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from standfast.rules import QueueRules
from standfast.wings.alerts.phrasing import pain, told
from standfast.wings.alerts.rules import CALM, SEVERITY, changes, severity
from standfast.wings.alerts.words import ADVICE, AlertKind, Condition, OpenAlert
from standfast.wings.health.queue_findings import QueueFacts
from standfast.wings.health.rules import StoreFacts, conditions

IDLE = QueueFacts(
    queue="mail",
    due=0,
    letters=0,
    oldest_due_seconds=None,
    claimed_recently=False,
    handler_known=True,
    live_workers=1,
    rules=QueueRules(),
)
STORE = StoreFacts(queues=(IDLE,), sweep_age=5.0, sweep_every=10.0)


@pytest.mark.parametrize(
    ("facts", "kinds"),
    [
        ({}, []),
        ({"due": 100}, []),
        ({"due": 101}, ["depth"]),
        ({"due": 101, "rules": QueueRules(depth_warning=200)}, []),
        ({"letters": 10}, []),
        ({"letters": 11}, ["dead_letters"]),
        ({"new_letters": 10}, []),
        ({"new_letters": 11}, ["dead_letter_growth"]),
        ({"new_letters": 3, "rules": QueueRules(growth_warning=2)}, ["dead_letter_growth"]),
        ({"new_letters": 90, "rules": QueueRules(dead_warning=100)}, []),
        ({"denials": 4}, []),
        ({"denials": 5}, ["replay_denials"]),
        ({"denials": 1, "rules": QueueRules(denial_warning=1)}, ["replay_denials"]),
        ({"due": 1, "live_workers": 0, "oldest_due_seconds": 29.0}, []),
        ({"due": 1, "live_workers": 0, "oldest_due_seconds": 30.0}, ["no_worker"]),
        ({"due": 1, "oldest_due_seconds": 60.0}, ["stalled"]),
        ({"due": 1, "oldest_due_seconds": 60.0, "claimed_recently": True}, []),
        ({"due": 1, "oldest_due_seconds": 60.0, "rules": QueueRules(stall_warning=61.0)}, []),
        ({"due": 1, "oldest_due_seconds": 60.0, "paused": True, "silent": 1}, []),
        ({"due": 1, "oldest_due_seconds": 7200.0, "paused": True, "claimed_recently": True}, []),
        ({"due": 1, "oldest_due_seconds": 28.0, "silent": 1}, []),
        ({"due": 1, "oldest_due_seconds": 28.0, "silent": 1, "rules": QueueRules(stall_warning=28.0)}, ["stalled"]),
        ({"due": 1, "oldest_due_seconds": 28.0, "silent": 1, "claimed_recently": True}, ["stalled"]),
        ({"due": 101, "oldest_due_seconds": 60.0}, ["stalled", "depth"]),
        (
            {"due": 101, "oldest_due_seconds": 60.0, "live_workers": 0, "silent": 101, "abandoned": 1},
            ["no_worker", "depth"],
        ),
        ({"silent": 2, "abandoned": 1, "deferred": 3}, ["stalled"]),
        ({"overdue": 1}, ["overdue"]),
        ({"idle_seconds": 1e6}, []),
        ({"idle_seconds": 3601.0, "rules": QueueRules(idle_warning=3600.0)}, ["zero_activity"]),
        ({"idle_seconds": 3600.0, "rules": QueueRules(idle_warning=3600.0)}, []),
        ({"handler_known": False}, []),
        ({"queue": "standfast.notify", "letters": 1, "rules": QueueRules(dead_warning=0)}, ["dead_sink"]),
        ({"queue": "standfast.subscribers", "letters": 1, "rules": QueueRules(dead_warning=0)}, ["dead_sink"]),
    ],
)
def test_what_is_wrong_with_a_queue_is_an_alert(facts, kinds):
    found = conditions(replace(STORE, queues=(replace(IDLE, **facts),)))
    assert [kind for kind, _, _ in found] == kinds
    assert {each.queue for each in found.values()} <= {facts.get("queue", "mail")}


@pytest.mark.parametrize(
    ("facts", "names"),
    [
        ({"sweep_age": 20.0}, []),
        ({"sweep_age": 21.0, "working_for": 21.0}, ["late_sweeper"]),
        ({"disk_low": True}, ["low_disk"]),
        ({"failing_sinks": (("ops", 299.0, "refused"),)}, []),
        ({"failing_sinks": (("ops", 300.0, "refused"), ("chat", 400.0, "500"))}, ["dead_sink:ops", "dead_sink:chat"]),
        ({"clock_jumped": True, "policy_issue": "broken"}, []),
    ],
)
def test_what_is_wrong_with_the_store_is_an_alert(facts, names):
    found = conditions(replace(STORE, **facts))
    assert [each.name for each in found.values()] == names
    assert {each.queue for each in found.values()} <= {""}


DEPTH = Condition(AlertKind.DEPTH, "mail: 140 pending (backed up)", "mail", "", 140, 100)
OPEN = OpenAlert("1", AlertKind.DEPTH, "mail", "", DEPTH.message, 140.0, 100.0, 0.0)


def test_an_alert_begins_once_and_is_over_once_it_has_been_gone_for_a_while():
    seen = {DEPTH.key: DEPTH}
    assert changes([], seen, 0.0).begins == (DEPTH,)
    assert not changes([], seen, 0.0, begin=False), "nobody looked for a while"
    assert not changes([OPEN], seen, 0.0), "it goes on"
    assert changes([OPEN], {}, 0.0).clears == ("1",)
    clearing = OPEN._replace(clear_since=100.0)
    assert not changes([clearing], {}, 99.9 + CALM)
    assert changes([clearing], {}, 100.0 + CALM).ends == (clearing,)
    assert changes([clearing], seen, 1000.0) == ((), (("1", DEPTH),), (), ()), "it is back, and is the same alert"


def test_a_value_that_dances_on_its_threshold_is_one_alert():
    standing: list[OpenAlert] = []
    begun = ended = 0
    for look in range(60):
        deep = look < 40 and look % 4 == 0  # over it once in forty seconds, then never again
        found = changes(standing, {DEPTH.key: DEPTH} if deep else {}, now := look * 10.0)
        begun, ended = begun + len(found.begins), ended + len(found.ends)
        if found.begins:
            standing = [OPEN]
        if found.clears:
            standing = [OPEN._replace(clear_since=now)]
        if found.goes_on:
            standing = [OPEN]
        if found.ends:
            standing = []
    assert (begun, ended) == (1, 1)


@pytest.mark.parametrize(("value", "written"), [(140, False), (150, False), (155, True), (120, True)])
def test_small_steps_are_not_worth_a_write(value, written):
    found = changes([OPEN], {DEPTH.key: replace(DEPTH, value=value)}, 0.0)
    assert bool(found) is written


@pytest.mark.parametrize(
    ("kind", "value", "threshold", "expected"),
    [
        (AlertKind.DEPTH, 101, 100, 0.307),
        (AlertKind.DEPTH, 200, 100, 0.65),
        (AlertKind.DEPTH, 1_000, 100, 0.93),
        (AlertKind.DEPTH, 1_000_000, 100, 1.0),
        (AlertKind.DEPTH, 1, 0, 0.3),
        (AlertKind.DEAD_LETTERS, 11, 10, 0.727),
        (AlertKind.DEAD_LETTERS, 1, 0, 0.7),
        (AlertKind.DEAD_LETTERS, 100_000, 10, 1.0),
        (AlertKind.LOW_DISK, 1, 0, 1.0),
        (AlertKind.OVERDUE, 99, 0, 0.5),
    ],
)
def test_how_much_it_hurts(kind, value, threshold, expected):
    assert severity(kind, value, threshold) == expected


def test_a_backlog_hurts_the_more_the_deeper_it_is_and_nothing_more_than_one():
    depths = [severity(AlertKind.DEPTH, value, 100) for value in range(101, 5000, 7)]
    assert depths == sorted(depths)
    assert depths[0] < depths[50] < depths[-1] <= 1
    letters = [severity(AlertKind.DEAD_LETTERS, value, 10) for value in range(11, 500)]
    assert letters == sorted(letters)
    assert 0.7 <= letters[0] < letters[-1] <= 1


def test_a_pain_signal_says_who_what_where_and_how_much():
    signal = pain(DEPTH, "2026-11-16T08:00:00+00:00")
    assert list(signal) == ["source", "category", "message", "severity", "queue", "details"]
    assert (signal["source"], signal["category"], signal["queue"]) == ("standfast", "depth", "mail")
    assert signal["severity"] == 0.5
    assert signal["details"].items() >= {"value": 140, "threshold": 100, "since": "2026-11-16T08:00:00+00:00"}.items()
    assert pain(Condition(AlertKind.LOW_DISK, "disk is low"), "")["queue"] is None


def test_a_webhook_and_a_pain_signal_leave_out_alike_what_there_is_not():
    whole = Condition(AlertKind.LOW_DISK, "disk is low")
    said = told(whole, state="started", since="")
    assert (said["queue"], said["subject"]) == (None, None)
    assert pain(whole, "")["details"]["subject"] is None


def test_every_kind_has_advice_and_hurts():
    assert set(ADVICE) == set(SEVERITY) == set(AlertKind)
    assert all(0 < each <= 1 for each in SEVERITY.values())
