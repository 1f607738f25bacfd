"""Did it land? What checks and the ledger say, put together into what happens before a repeat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from standfast.asking import asked
from standfast.failure import Class, Landed, Verdict
from standfast.job import ASKED, DOUBTED, Claim, Entry
from standfast.outcome import ALL, Failed, Look, Outcome, Recovered, TimedOut, Undetermined
from standfast.printable import printable
from standfast.rules import ReplayMode

Scope = Literal["all", "open", "none"]
LONGEST_NOTE = 300


def scope(claim: Claim) -> Scope:
    """Say which effects are looked at before this attempt runs.

    `verify_first` looks at all of them before every repeat, and so does whatever a person runs again; `replay` looks
    at those that were begun and are not known to be done.
    """
    if not claim.entered_before:
        return "none"
    if claim.replay_mode != "replay" or claim.replayed:
        return "all"
    return "open" if claim.open_intents else "none"


def of_answer(answer: object) -> tuple[Verdict, str]:
    """Read what a check answered: True, False or a verdict. Anything else says nothing, and is never success."""
    if isinstance(answer, bool):
        return (Verdict.VERIFIED if answer else Verdict.ABSENT), ""
    if isinstance(answer, str) and str(answer) in list(Verdict):
        return Verdict(str(answer)), ""
    shown = asked(lambda: printable(repr(answer)[:LONGEST_NOTE]), lambda _error: type(answer).__name__)
    return Verdict.INDETERMINATE, f"it answered {shown}, which is neither True, False nor a verdict"


def of_ledger(name: str, entry: Entry | None, mode: ReplayMode) -> Look:
    """Judge an effect that nobody can look for, by what the ledger has of it.

    One that was begun may be done again where the mode or a person says so.
    """
    if entry is not None and entry.state == "done":
        return Look(name, Verdict.VERIFIED)
    if entry is None or entry.state == "seen" or mode == "replay" or entry.verdict == ASKED:
        return Look(name, Verdict.ABSENT)
    known = "its handler could not find it" if entry.verdict == DOUBTED else "it was begun, nobody knows how it ended"
    return Look(name, Verdict.INDETERMINATE, f"{known}, and it has no verify")


def doubted(claim: Claim, names: tuple[str, ...] | None) -> tuple[str, ...]:
    """Name the effects that count as done and that a handler's own result could not find; () names all, None none."""
    if names is None:
        return ()
    done = (entry.name for entry in claim.ledger or () if entry.state == "done")
    return tuple(name for name in done if not names or name in names)


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """Judge all effects together: one that cannot be told leaves the whole open, and so does nothing at all."""
    kinds = set(verdicts)
    if not kinds or Verdict.INDETERMINATE in kinds:
        return Verdict.INDETERMINATE
    return kinds.pop() if len(kinds) == 1 else Verdict.PARTIAL


def before_repeat(looks: Sequence[Look], *, complete: bool) -> Recovered | Undetermined | None:
    """Say how a repeat ends before it runs, if it does; None runs it.

    `complete` says that every effect was looked at, so that finding them all means that nothing is left to do.
    """
    if not looks and not complete:
        return None
    match combine(look.verdict for look in looks):
        case Verdict.INDETERMINATE:
            return Undetermined(tuple(looks), untold(looks))
        case Verdict.VERIFIED if complete:
            return Recovered(tuple(looks))
        case _:
            return None


def after_doubt(claim: Claim, outcome: Outcome, looks: Sequence[Look]) -> Outcome:
    """Say how an attempt ends that may have done its work, now that somebody has looked.

    What is there is done. What times out and cannot be told is held where nothing may be repeated unverified. All else
    ends as it would without the look.
    """
    verdict = combine(look.verdict for look in looks)
    if verdict == Verdict.VERIFIED:
        return Recovered(tuple(looks), entered=True)
    if verdict == Verdict.INDETERMINATE and isinstance(outcome, TimedOut) and claim.replay_mode == "verify_first":
        return Undetermined(tuple(looks), untold(looks), entered=True)
    return outcome


def in_doubt(outcome: Outcome) -> bool:
    """Tell whether an attempt that did not succeed may have done its work, as far as it can say itself."""
    match outcome:
        case TimedOut():
            return True
        case Failed(failure, doubts=None):
            return failure.landed == Landed.MAYBE and failure.cls != Class.PERMANENT
        case _:
            return False


def untold(looks: Iterable[Look]) -> str:
    """Name the checks that could not tell, and why."""
    told = [_of(look) for look in looks if look.verdict == Verdict.INDETERMINATE]
    return "; ".join(told) or "nothing is declared that could be looked at"


def seen(looks: Iterable[Look]) -> str:
    """Say what was seen, effect by effect."""
    return ", ".join(f"{look.name} {look.verdict}" for look in looks)


def _of(look: Look) -> str:
    what = "which effects it has" if look.name == ALL else f"effect {look.name!r}"
    return f"{what} cannot be told: {look.note or 'its check says so'}"
