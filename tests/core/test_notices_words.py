"""Notices as values: numbers, filters, and how they are told outside."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from standfast.errors import ConfigurationError
from standfast.lifecycle import ABOUT, NoticeKind
from standfast.wings.notices.scripts import JournalRow
from standfast.wings.notices.words import (
    Notice,
    NoticeFilter,
    checked_kinds,
    cloud_event,
    end_of,
    gap,
    lay_out,
    notices_of,
    row_of,
)

ALL = NoticeFilter().fits
AT = datetime(2026, 11, 16, 9, 15, 48, 943210, UTC)


def notice(kind: str = "enqueued", job: str | None = "j1", queue: str = "mail", **data: Any) -> Notice:
    return Notice(7 << 20, kind, AT, job, queue, data)


def test_a_number_names_its_transaction_and_the_end_of_one_comes_before_the_next():
    entries = '[["enqueued","mail",["a","b"]],["schedule_added","mail",["nightly"]],["paused","mail",[""]]]'
    found = list(notices_of(JournalRow(7, AT.timestamp(), entries), 0.0, ALL))
    paused = list(notices_of(JournalRow(7, AT.timestamp(), entries), 0.0, NoticeFilter(frozenset({"paused"})).fits))
    assert paused == found[-1:], "whoever wants little gets the same numbers"
    assert [row_of(each.seq) for each in found] == [7] * 4
    assert [each.job for each in found] == ["a", "b", None, None]
    assert found[2].data == {"schedule": "nightly"}
    assert end_of(6) < found[0].seq < found[-1].seq < end_of(7)
    assert gap(3, 7, AT).data == {"transactions": 3, "oldest": found[0].seq}
    assert row_of(gap(3, 7, AT).seq) == 6, "who goes on behind it does not miss the seventh, nor is told of it again"


class Unwanted(list[str]):
    """What nobody wants: to lay it out would be for nothing."""

    def __mul__(self, number: Any) -> Unwanted:
        return Unwanted(list.__mul__(self, number))

    def __iter__(self) -> Any:
        raise AssertionError("laid out")


def test_a_row_with_more_notices_than_numbers_is_told_and_does_not_run_into_the_next():
    much = [("held", "mail", Unwanted([""]) * (1 << 20)), ("enqueued", "mail", ["b"])]
    [last] = lay_out(7, AT, much, NoticeFilter(frozenset({"enqueued"})).fits)
    assert (last.job, last.seq) == ("b", end_of(7))


@pytest.mark.parametrize(
    ("kinds", "queues", "fits"),
    [
        (None, None, True),
        (["enqueued"], None, True),
        (["held"], None, False),
        (None, ["mail"], True),
        (None, [], False),
    ],
)
def test_who_wants_little_gets_that(kinds, queues, fits):
    wanted = NoticeFilter(checked_kinds(kinds), None if queues is None else frozenset(queues))
    assert wanted.fits("enqueued", "mail") is fits


def test_an_unknown_kind_is_refused():
    with pytest.raises(ConfigurationError, match="unknown notice 'born'"):
        checked_kinds(["held", "born"])


@pytest.mark.parametrize(
    ("told_of", "subject"),
    [
        (notice(), "j1"),
        (notice("workflow_stuck", None, "", workflow="w1"), "w1"),
        (notice("paused", None), None),
        (gap(3, 7, AT), None),
    ],
)
def test_a_cloud_event_has_what_its_specification_asks_for(told_of, subject):
    event = cloud_event(told_of, "/shop")
    required = {
        "specversion": "1.0",
        "id": str(told_of.seq),
        "source": "/shop",
        "type": f"dev.standfast.{told_of.kind}",
    }
    assert event.items() >= required.items()
    assert (event.get("subject"), event["time"]) == (subject, "2026-11-16T09:15:48.943Z")
    assert event["data"].items() >= {"kind": told_of.kind, "job": told_of.job, "queue": told_of.queue or None}.items()


def kinds_on_the_page() -> dict[str, str]:
    """Give every kind that the page names, with what it says that the kind is about."""
    page = (Path(__file__).parents[2] / "docs/notices.md").read_text().partition("## Kinds\n")[2].partition("\n## ")[0]
    found: dict[str, str] = {}
    for sentence in re.split(r"\.\s", page):
        about = sentence.strip().partition(":")[0]
        found |= dict.fromkeys(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]+)`", sentence))), about)
    return found


def test_the_page_names_every_kind_under_what_it_is_about():
    """A kind of something new needs its first word in `ABOUT`, or its name would be given as a job's id."""
    page = kinds_on_the_page()
    families = {"Of redrives, workflows and schedules"}
    for kind in set(NoticeKind) - {NoticeKind.GAP}:
        whose = next((name for about, name in ABOUT.items() if kind.startswith(about)), None)
        said = page.get(kind) or page[f"{kind.partition('_')[0]}_"]
        if whose is None:
            assert said in {"Of a job", "Of a queue", "Of the policy"}, kind
        else:
            assert said in {f"Of a {whose}", "Of [alerts](alerts.md)", *families}, kind
