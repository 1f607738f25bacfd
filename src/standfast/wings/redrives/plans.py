"""The letters of a plan: what is predicted for each, and whether that still holds when its turn comes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from standfast.failure import Landed
from standfast.lifecycle import LETTERS, State
from standfast.typed.letter_options import LetterFilter
from standfast.views import JobView
from standfast.wings.policy.rulings import Ruling, may_have_landed
from standfast.wings.records.reads import JobRecord
from standfast.wings.redrives.rules import count_fates
from standfast.wings.redrives.scripts import PlanRow, RedriveRow
from standfast.wings.redrives.words import Fate, Outcome
from standfast.wings.replays.returning import wanted_by

MOST_SHOWN = 5
PAGE_BYTES = 4 << 20
"""The bytes of letters that a plan reads at a time, about: payloads may be large, and none is needed afterwards."""
SMALLEST_PAGE, FIRST_PAGE, LARGEST_PAGE = 10, 20, 200
"""How many letters a plan reads at a time."""
SET_APART = "quarantined"
"""The replay status of letters that a redrive takes only if its filter asks for them."""


class RuledLetter(NamedTuple):
    """A letter, and what the policy says about it now."""

    record: JobRecord
    letter: JobView
    ruling: Ruling


class PlannedLetter(msgspec.Struct, frozen=True):
    """A letter as a plan sees it."""

    record: JobRecord
    letter: JobView
    ruling: Ruling
    fate: Fate
    moved_on: bool

    @property
    def unchecked(self) -> bool:
        """Whether its effect may exist and nothing in the store tells."""
        return self.fate in (Fate.RUN, Fate.APPROVAL) and may_have_landed(self.letter) == Landed.MAYBE


class Prediction:
    """What a plan predicts, gathered page by page. Of each letter only its row is kept: there may be very many."""

    def __init__(self, chosen: LetterFilter) -> None:
        self.rows: list[PlanRow] = []
        self.snapshot = ""
        """The policy in force."""
        self._chosen = chosen
        self._others = dict.fromkeys(("unchecked", "moved_on", "quarantined", "need_consent"), 0)
        self._approvers: dict[str, set[str]] = {"requesters": set(), "groups": set(), "rules": set()}

    def add(self, page: Iterable[PlannedLetter], *, unanswered: Collection[int]) -> None:
        """Add letters; those without an answer about consent are only counted, and so are quarantined ones."""
        able = [each for each in page if each.record.row.n not in unanswered]
        seen = [each for each in able if is_wanted(each.letter, self._chosen)]
        if seen and not self.rows:
            self.snapshot = seen[0].ruling.snapshot
        self.rows += [plan_row(place, each) for place, each in enumerate(seen, len(self.rows))]
        self._others["unchecked"] += sum(each.unchecked for each in seen)
        self._others["moved_on"] += sum(each.moved_on for each in seen)
        self._others["quarantined"] += len(able) - len(seen)
        self._others["need_consent"] += len(unanswered)
        for name, those in approvers(seen).items():
            self._approvers[name] |= those

    def counts(self) -> dict[str, Any]:
        """Return how many letters have which fate."""
        return {**count_fates(Fate(row.fate) for row in self.rows), **self._others}

    def approvers(self) -> dict[str, list[str]]:
        """Return who may not approve the plan, and which groups must."""
        return {name: sorted(those) for name, those in self._approvers.items()}


def next_page(records: Sequence[JobRecord]) -> int:
    """Return how many letters to read next, if they are as large as these, to hold only so many bytes at a time."""
    size = sum(_size(each) for each in records) // max(1, len(records))
    return min(LARGEST_PAGE, max(SMALLEST_PAGE, PAGE_BYTES // max(1, size)))


def _size(record: JobRecord) -> int:
    texts = (record.row.payload, record.row.details, *record.history, *(each.receipt or "" for each in record.effects))
    return sum(map(len, texts))


def plan_row(place: int, seen: PlannedLetter) -> PlanRow:
    """Return a letter of a plan as it is stored."""
    row = seen.record.row
    return PlanRow(place, row.n, row.token, row.generation, seen.fate)


def as_planned(planned: PlanRow, record: JobRecord) -> bool:
    """Return whether a letter is still as it was planned."""
    row = record.row
    same = (row.token, row.generation) == (planned.token, planned.generation)
    return same and State(row.state) in LETTERS


def refusal(row: RedriveRow, planned: PlanRow, ruling: Ruling) -> Outcome | None:
    """Return why a letter may not be replayed, or None."""
    match ruling.permission.decision:
        case "allow":
            return None
        case "require_approval" if _is_approved(row, planned, ruling):
            return None
        case "require_approval":
            return Outcome.APPROVAL_REQUIRED
        case _:
            return Outcome.DENIED


def _is_approved(row: RedriveRow, planned: PlanRow, ruling: Ruling) -> bool:
    """Return whether the plan's approval covers this letter: predicted so, with these groups, under this policy."""
    if row.approval is None or planned.fate != Fate.APPROVAL or ruling.snapshot != row.snapshot:
        return False
    return set(ruling.permission.groups) <= set(msgspec.json.decode(row.foreseen)["groups"])


def is_wanted(letter: JobView, chosen: LetterFilter) -> bool:
    """Return whether a plan takes a letter: a quarantined one only if the filter asks for it."""
    apart = letter.triage is not None and letter.triage.replay_status == SET_APART
    return not apart or chosen.get("replay_status") == SET_APART


def approvers(seen: Iterable[PlannedLetter]) -> dict[str, set[str]]:
    """Return who may not approve these letters, which groups must, and which rules say so."""
    asking = [each for each in seen if each.fate == Fate.APPROVAL]
    return {
        "requesters": {person for each in asking for person in wanted_by(each.record)},
        "groups": {group for each in asking for group in each.ruling.permission.groups},
        "rules": {each.ruling.permission.rule for each in asking},
    }


def is_for_agent(row: RedriveRow) -> bool:
    """Return whether a plan was made for an agent: a person then approves replays that might do work twice."""
    return bool(msgspec.json.decode(row.foreseen).get("for_agent"))


def drift(token: str, drifted: list[tuple[str | None, str | None]]) -> str:
    """Describe which letters are not as they were planned."""
    shown = ", ".join(f"{job} is {state}" if job else "one is gone" for job, state in drifted[:MOST_SHOWN])
    more = f" and {len(drifted) - MOST_SHOWN} more" if len(drifted) > MOST_SHOWN else ""
    return (
        f"{len(drifted)} of the letters are not as they were when plan {token} was made: {shown}{more}; "
        "nothing was started: plan again"
    )
