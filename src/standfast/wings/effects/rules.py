"""Decides from the checks and the ledger whether effects happened, and what follows before a repeat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Literal, TypeGuard

import msgspec
from msgspec.structs import replace

from standfast.concurrency.guarded import call_guarded
from standfast.failure import Class, Landed, Verdict
from standfast.job import ASKED, DOUBTED, Claim, LedgerEntry, keeps_ledger
from standfast.outcome import (
    ALL,
    LARGEST_RESULT,
    Failed,
    Look,
    LookFailed,
    Outcome,
    Recovered,
    TimedOut,
    Undetermined,
    Unfinished,
)
from standfast.printable import printable
from standfast.rules import ReplayMode, WhenLanded
from standfast.wings.effects.findings import LookResult

Scope = Literal["all", "open", "none"]
LONGEST_NOTE = 300
NO_CHECK = "it has no verify"


def scope(claim: Claim) -> Scope:
    """Return which effects are looked at before this attempt runs.

    `verify_first` looks at all of them if any may exist unrecorded, and so does a job that a person runs again;
    `replay` looks at those that were begun and are not known to be done.
    """
    if not claim.entered_before:
        return "none"
    if claim.replayed:
        return "all"
    if claim.replay_mode == "replay":
        return "open" if claim.open_intents else "none"
    return "none" if claim.landed == Landed.NO and not claim.open_intents else "all"


def of_answer(answer: object) -> tuple[Verdict, str]:
    """Read the answer of a check: True, False or a verdict. Any other answer says nothing, and never means success."""
    if isinstance(answer, bool):
        return (Verdict.VERIFIED if answer else Verdict.ABSENT), ""
    if isinstance(answer, str) and str(answer) in list(Verdict):
        return Verdict(str(answer)), ""
    shown = call_guarded(lambda: printable(repr(answer)[:LONGEST_NOTE]), lambda _error: type(answer).__name__)
    return Verdict.INDETERMINATE, f"it answered {shown}, which is neither True, False nor a verdict"


def of_ledger(name: str, entry: LedgerEntry | None, mode: ReplayMode, why: str = NO_CHECK) -> Look:
    """Judge an effect that cannot be verified, by its ledger entry.

    An effect that was begun may be done again if the mode or a person says so.
    """
    look = partial(Look, name, key="" if entry is None else entry.name, by_ledger=True)
    if entry is not None and entry.state == "done":
        return look(Verdict.VERIFIED, receipt=entry.receipt)
    if entry is None or entry.state == "seen" or mode == "replay" or entry.verdict == ASKED:
        return look(Verdict.ABSENT)
    known = "its handler could not find it" if entry.verdict == DOUBTED else "it was begun, and its outcome is unknown"
    return look(Verdict.INDETERMINATE, f"{known}, and {why}")


def resumes(when_landed: WhenLanded | None, ledger: Iterable[LedgerEntry] | None) -> bool:
    """Return whether a handler runs again although all its effects exist: the code after them has not run.

    A handler that uses the ledger can: it skips existing effects. One that does not would repeat them.
    """
    return keeps_ledger(ledger) if when_landed is None else when_landed == "resume"


def with_looks(entries: Iterable[LedgerEntry] | None, looks: Iterable[Look]) -> list[LedgerEntry]:
    """Return the ledger with the findings: an intent found done is closed, and an absent one is no longer in doubt.

    A receipt that its handler could not find stays doubted: repeating the effect is no progress.
    """
    known = {entry.name: entry for entry in entries or ()}
    for look in sightings(looks):
        before = known.get(look.key)
        if before is None or before.state == "seen":
            known[look.key] = LedgerEntry(look.key, "seen", look.receipt, look.verdict)
        elif look.verdict == Verdict.VERIFIED:
            receipt = look.receipt if look.receipt is not None else before.receipt
            known[look.key] = replace(before, state="done", receipt=receipt, verdict=look.verdict)
        elif look.verdict == Verdict.ABSENT and before.state == "begun" and before.verdict != DOUBTED:
            known[look.key] = replace(before, verdict=look.verdict)
    return list(known.values())


def sightings(looks: Iterable[Look]) -> tuple[LookResult, ...]:
    """Return what to store of looks at the world; answers from the ledger are stored already."""
    seen = (look for look in looks if look.name != ALL and not look.by_ledger)
    return tuple(LookResult(look.key or look.name, str(look.verdict), look.receipt) for look in seen)


def closes(entries: Iterable[LedgerEntry] | None, looks: Iterable[Look]) -> bool:
    """Return whether a look found an effect that an attempt began with an unknown outcome."""
    found = {look.key for look in sightings(looks) if look.verdict == Verdict.VERIFIED}
    begun = {entry.name for entry in entries or () if entry.state == "begun" and entry.verdict != DOUBTED}
    return bool(found & begun)


def result_of(looks: Sequence[Look]) -> str | None:
    """Return the findings as a job's result: the receipt of its one effect, or receipts by name; None if there is none.

    The JSON texts are combined without decoding them.
    """
    if all(look.receipt is None for look in looks):
        return None
    if len(looks) == 1:
        return looks[0].receipt
    found = {look.name: msgspec.Raw((look.receipt or "null").encode()) for look in looks}
    text = msgspec.json.encode(found).decode()
    return text if len(text) <= LARGEST_RESULT else None


def doubted(claim: Claim, names: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the keys of effects that count as done and that a handler's own result could not find.

    () means all of them, None means none. A step is not an effect.
    """
    if names is None:
        return ()
    done = (entry for entry in claim.ledger or () if entry.state == "done" and not entry.is_step)
    return tuple(entry.name for entry in done if not names or entry.label in names)


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """Combine all verdicts: one indeterminate verdict makes the whole indeterminate, and so does having none."""
    kinds = set(verdicts)
    if not kinds or Verdict.INDETERMINATE in kinds:
        return Verdict.INDETERMINATE
    return kinds.pop() if len(kinds) == 1 else Verdict.PARTIAL


def before_repeat(looks: Sequence[Look], *, complete: bool) -> Recovered | LookFailed | Undetermined | None:
    """Return how a repeat ends before it runs; None runs it.

    `complete` means that nothing is left to do once every effect is found.
    """
    if not looks and not complete:
        return None
    match combine(look.verdict for look in looks):
        case Verdict.INDETERMINATE if _failed_for_now(looks):
            waits = [look.retry_after for look in looks if look.retry_after is not None]
            return LookFailed(tuple(looks), undetermined_checks(looks), max(waits, default=None))
        case Verdict.INDETERMINATE:
            return Undetermined(tuple(looks), undetermined_checks(looks))
        case Verdict.VERIFIED if complete:
            return Recovered(tuple(looks), result=result_of(looks))
        case _:
            return None


def _failed_for_now(looks: Sequence[Look]) -> bool:
    """Return whether every indeterminate check may give an answer later."""
    unclear = [look for look in looks if look.verdict == Verdict.INDETERMINATE]
    return bool(unclear) and all(look.again for look in unclear)


def after_doubt(claim: Claim, outcome: Failed | TimedOut, looks: Sequence[Look], *, resumed: bool) -> Outcome:
    """Return how an attempt that may have done its work ends, after a look.

    If all effects exist, the job is done, except for the code after them if the handler is resumed. A timeout with an
    indeterminate look holds the job under `verify_first`; a look that failed temporarily is repeated first thing by the
    next attempt. Everything else ends as it would without the look.
    """
    verdict = combine(look.verdict for look in looks)
    if verdict == Verdict.VERIFIED and resumed:
        return Unfinished(outcome, tuple(looks))
    if verdict == Verdict.VERIFIED:
        return Recovered(tuple(looks), entered=True, result=result_of(looks))
    unclear = verdict == Verdict.INDETERMINATE and not _failed_for_now(looks)
    if unclear and isinstance(outcome, TimedOut) and claim.replay_mode == "verify_first":
        return Undetermined(tuple(looks), undetermined_checks(looks), entered=True)
    return outcome


def in_doubt(outcome: Outcome) -> TypeGuard[Failed | TimedOut]:
    """Return whether an attempt that did not succeed may have done its work, as far as its outcome says."""
    match outcome:
        case TimedOut():
            return True
        case Failed(failure, doubts=None):
            return failure.landed == Landed.MAYBE and failure.cls != Class.PERMANENT
        case _:
            return False


def undetermined_checks(looks: Iterable[Look]) -> str:
    """Describe which checks were indeterminate, and why."""
    undetermined = [_describe(look) for look in looks if look.verdict == Verdict.INDETERMINATE]
    return "; ".join(undetermined) or "no effect is declared that could be checked"


def summary(looks: Iterable[Look]) -> str:
    """Describe the verdict of each effect."""
    return ", ".join(f"{look.name} {look.verdict}" for look in looks)


def _describe(look: Look) -> str:
    what = "which effects it has" if look.name == ALL else f"effect {look.name!r}"
    return f"{what} cannot be told: {look.note or 'its check says so'}"
