"""Scripts for the policy in force, which processes publish and read, and for replays that it refused or postponed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from standfast.lifecycle import NoticeKind, Transition
from standfast.rules import ReplayMode
from standfast.store.scripts import writes
from standfast.store.steps import Round, Rows, Script
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.words import Decision
from standfast.wings.policy import rules
from standfast.wings.policy.rules import BROKEN, DecidedUnder

BITE = 200
"""How many letters one look for automatic replays handles."""
BUILT_IN = rules.BUILT_IN.snapshot
TURN = "automatic replays"
"""The name, among the upkeep marks, of the turn to handle automatic replays."""
SCHEDULED = "scheduled"
"""The replay status of a letter that will be replayed automatically."""


class StoredPolicy(NamedTuple):
    """The policy in force, as stored; empty if none was ever written."""

    snapshot: str | None = None
    source: str | None = None
    text: str | None = None
    rules: str | None = None
    published_by: str | None = None
    published_at: float | None = None
    problem: str | None = None
    problem_at: float | None = None

    @property
    def mark(self) -> str | None:
        """What identifies it, as `queue_rules` gives it: another mark means another policy."""
        return self.snapshot or (None if self.problem is None else f"{BROKEN}: {self.problem}")


class PolicyOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A policy to put in force, or, with `problem`, the report of one that cannot be used."""

    by: str
    source: str
    snapshot: str = ""
    text: str = ""
    rules: str = ""
    problem: str | None = None


@writes(separate=True)
def publish(round_: Round, offers: Sequence[PolicyOffer]) -> Script[list[StoredPolicy]]:
    """Put policies in force for every process: the last published wins. Return for each the policy then in force.

    An unusable policy changes only the reported problem: the last good policy stays in force.
    """
    answers = []
    for offer in offers:
        known = _stored_policy((yield "lock_policy", {}))
        if offer.problem is not None:
            yield from _note_problem(round_, offer, known)
        elif (known.snapshot, known.text, known.source, known.problem) != (
            *(offer.snapshot, offer.text, offer.source),
            None,
        ):
            yield from _put_in_force(round_, offer, known)
        answers.append((yield from stored_policy()))
    return answers


def _put_in_force(round_: Round, offer: PolicyOffer, known: StoredPolicy) -> Script[None]:
    given = {"snapshot": offer.snapshot, "source": offer.source, "text": offer.text, "rules": offer.rules}
    yield "write_policy", {**given, "by": offer.by, "now": round_.now}
    if offer.snapshot != known.snapshot:
        detail = {"before": known.snapshot or BUILT_IN, "source": offer.source}
        audit.record(
            round_,
            Decision(kind="policy", by=offer.by, snapshot=offer.snapshot, outcome="published", detail=detail),
        )
        round_.notices[NoticeKind.POLICY_CHANGED, ""].append("")


def _note_problem(round_: Round, offer: PolicyOffer, known: StoredPolicy) -> Script[None]:
    if known.problem == offer.problem:
        return
    yield "write_policy_problem", {"problem": offer.problem, "now": round_.now}
    if known.snapshot is None:  # from now on every replay is denied
        detail = {"source": offer.source, "problem": offer.problem}
        audit.record(round_, Decision(kind="policy", by=offer.by, outcome="broken", detail=detail))
    round_.notices[NoticeKind.POLICY_BROKEN, ""].append("")


def outdated(transitions: Sequence[Transition]) -> Script[set[DecidedUnder]]:
    """Return the policies that transitions were decided under and that are no longer in force; lock the one that is."""
    decided = {ruled for each in transitions if (ruled := each.rider(DecidedUnder)) is not None}
    if not decided:
        return set()
    present = yield "hold_policy", {}
    return decided - {DecidedUnder(snapshot) for (snapshot,) in present or [(BUILT_IN,)]}


def under_old_policy(transitions: Sequence[Transition]) -> Script[set[int]]:
    """Return the places of transitions allowed by a policy that is no longer in force."""
    known = yield from outdated(transitions)
    return {place for place, each in enumerate(transitions) if each.rider(DecidedUnder) in known}


def stored_policy() -> Script[StoredPolicy]:
    """Read the policy in force."""
    return _stored_policy((yield "policy_row", {}))


def _stored_policy(rows: Rows) -> StoredPolicy:
    return next((StoredPolicy(*row) for row in rows), StoredPolicy())


def unless_known(mark: str | None) -> Script[StoredPolicy | None]:
    """Read the policy in force, unless it is the one of this mark: then None."""
    found = next((mark for (mark,) in (yield "policy_mark", {})), None)
    return None if found == mark else (yield from stored_policy())


def due(now: float) -> Script[list[int]]:
    """Read the numbers of letters whose automatic replay is due: by time, or because another policy is in force."""
    return [n for (n,) in (yield "due_replays", {"now": now, "limit": BITE})]


class ReplayTurn(msgspec.Struct, frozen=True):
    """The turn to handle automatic replays, for so many seconds: no two workers look at the same letters.

    `held` is the end of the turn that a worker already has; with zero seconds it gives the turn up.
    """

    seconds: float
    held: float | None = None


@writes()
def take_turn(round_: Round, turns: Sequence[ReplayTurn]) -> Script[list[float | None]]:
    """Give one worker the turn; return until when it has it, or None for those that came later."""
    answers = []
    for turn in turns:
        given = {"name": TURN, "until": round_.now + turn.seconds, "now": round_.now, "held": turn.held}
        answers.append(next((until for (until,) in (yield "take_upkeep", given)), None))
    return answers


@writes()
def tidy(round_: Round, asked: Sequence[None]) -> Script[list[None]]:
    """Forget automatic replays of jobs that are no longer letters waiting for one."""
    yield "idle_replays", {"now": round_.now, "limit": BITE}
    return [None] * len(asked)


def replay_modes() -> Script[dict[tuple[str, str], ReplayMode]]:
    """Read the replay mode of every handler, by queue and name."""
    return {(queue, name): mode for queue, name, mode in (yield "replay_modes", {})}


class PolicyActivity(NamedTuple):
    """What `health` needs: the policy, and by queue how many letters and refused replays are recent."""

    stored_policy: StoredPolicy
    letters: dict[str, int]
    refusals: dict[str, int]


def policy_activity(now: float, *, letters_within: float, refusals_within: float) -> Script[PolicyActivity]:
    """Read how many letters and refusals are recent."""
    letters: dict[str, int] = dict((yield "recent_letters", {"since": now - letters_within}))
    refusals: dict[str, int] = dict((yield "recent_refusals", {"since": now - refusals_within}))
    return PolicyActivity((yield from stored_policy()), letters, refusals)
