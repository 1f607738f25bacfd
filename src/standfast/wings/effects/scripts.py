"""The ledger: what attempts do to the world, written before and after. One row for each effect, two writes.

An intent of a worker that lost its job is refused: it must not act. Its receipt is still kept, marked late, because
fencing guards the state of a job and not what happened in the world. A receipt that another one replaces, or that comes
too late to replace another, is kept in the job's history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from standfast.job import DOUBTED, LedgerEntry, LedgerNote
from standfast.lifecycle import Transition
from standfast.store.room import LARGEST_TEXT, ROOM_TO_CLAIM
from standfast.store.scripts import Patience, Write, number_of, writes
from standfast.store.steps import Round, Script, lock_jobs, text
from standfast.wings.effects.findings import Findings, LookResult

Row = tuple[int, str, str, str | None, str | None, int, float, int, int | None, int | None]
LONGEST_QUOTE = 300
"""The most characters of a receipt that a job's history quotes."""


class LookResults(NamedTuple):
    """What an attempt found of its job's effects before it runs."""

    n: int
    token: int
    id: str
    attempt: int
    looks: Sequence[LookResult]
    failed_before: bool = False
    """Whether earlier looks failed: their count is reset now."""


class LedgerRow(NamedTuple):
    """The present row of an effect, with its job. Field order is the statement's."""

    id: str | None
    running_under: int | None
    state: str | None
    receipt: str | None
    verdict: str | None
    late: int | None
    token: int | None

    def owned_by(self, note: LedgerNote) -> bool:
        """Return whether the attempt that writes this note still has its job."""
        return self.id == note.id and self.running_under == note.token

    def entry(self, name: str) -> LedgerEntry:
        """Return the row as an attempt's ledger entry."""
        return LedgerEntry(name, self.state, self.receipt, self.verdict, self.late or 0)  # type: ignore[arg-type]


@writes(patience=Patience.ENDLESS, number=number_of)
def write(round_: Round, notes: Sequence[LedgerNote]) -> Script[list[LedgerEntry | None]]:
    """Write notes; return for each its effect's new entry, or None if the note was refused."""
    yield from lock_jobs(round_, (note.n for note in notes))
    answers: dict[int, LedgerEntry | None] = {}
    for batch in _split_by_effect(notes):
        answers |= yield from _write(round_, {place: notes[place] for place in batch})
    return [answers[place] for place in range(len(notes))]


intend = writes(room=ROOM_TO_CLAIM, reserve=LARGEST_TEXT, number=number_of)(write.run)
"""The same for intents: no effect may begin if its intent cannot be written soon, or its receipt would find no room."""


def for_note(note: LedgerNote) -> Write[LedgerNote, LedgerEntry | None]:
    """Return the script that writes a note."""
    return intend if note.state == "begun" else write


def _split_by_effect(notes: Sequence[LedgerNote]) -> Iterable[list[int]]:
    """Split the places of notes into batches: two workers' notes of one effect are written one after the other."""
    batches: list[dict[tuple[int, str], int]] = []
    for place, note in enumerate(notes):
        effect = (note.n, note.name)
        batch = next((each for each in batches if effect not in each), None)
        if batch is None:
            batches.append(batch := {})
        batch[effect] = place
    return [list(batch.values()) for batch in batches]


def _write(round_: Round, notes: dict[int, LedgerNote]) -> Script[dict[int, LedgerEntry | None]]:
    rows = yield "standing_effects", {"effects": text([(note.n, note.name) for note in notes.values()])}
    answers: dict[int, LedgerEntry | None] = {}
    written: list[Row] = []
    dropped: list[tuple[int, str]] = []
    completed: list[tuple[int, str]] = []
    for (place, note), row in zip(notes.items(), rows, strict=True):
        found = LedgerRow(*row)
        answers[place] = _after(note, found)
        if note.state == "none":
            dropped += [(note.n, note.name)] if _is_own_intent(note, found) else []
        elif answers[place] is not None and _changes(note, found):
            written.append(_row(round_, note, found))
        completed += [(note.n, text(line)) for line in _evidence(round_, note, found)]
    if written:
        yield "write_effects", written
    if dropped:
        yield "drop_effects", {"effects": text(dropped)}
    for line in completed:  # one by one: two lines may be of the same job
        yield "write_history", [line]
    return answers


def _after(note: LedgerNote, found: LedgerRow) -> LedgerEntry | None:
    """Return an effect's entry after a note: another attempt's receipt is used, not overwritten."""
    if note.state == "none" or found.id != note.id or (note.state == "begun" and not found.owned_by(note)):
        return None
    if _changes(note, found):
        return LedgerEntry(note.name, note.state, note.receipt, _verdict(note, found), int(not found.owned_by(note)))
    return found.entry(note.name)


def _changes(note: LedgerNote, found: LedgerRow) -> bool:
    """Return whether a note is written: an intent unless the effect is done, a receipt unless there is a newer one.

    That a look found an effect done counts if there is no receipt, and never replaces one.
    """
    if found.state != "done":
        return True
    is_newest = found.owned_by(note) or (found.token or 0) <= note.token
    return _is_receipt(note) and (is_newest or _only_seen(found))


def _is_receipt(note: LedgerNote) -> bool:
    return note.state == "done" and note.verdict is None


def _only_seen(found: LedgerRow) -> bool:
    return found.state == "done" and found.verdict is not None and found.receipt is None


def _evidence(round_: Round, note: LedgerNote, found: LedgerRow) -> Iterable[dict[str, Any]]:
    """Yield a history line for a receipt without a place in the ledger: it names something that happened."""
    told = None
    if found.id == note.id and _is_receipt(note) and not _changes(note, found):
        told = "late_receipt", note.receipt, "the receipt that counts is another's"
    elif found.receipt is not None and found.token != note.token and _after(note, found) is not None:
        told = _displaced(note, found)
    if told is not None and (note.receipt is None or note.receipt != found.receipt):  # the same again is no news
        code, receipt, now = told
        message = f"effect {note.name!r} was done {_with(receipt)}; {now}"
        yield {"attempt": note.attempt, "at": round_.now, "reason_code": code, "message": message}


def _displaced(note: LedgerNote, found: LedgerRow) -> tuple[str, str | None, str] | None:
    if not _changes(note, found):
        return None
    if found.state == "begun":
        return "doubted_receipt", found.receipt, "it could not be found, and is done again"
    return "late_receipt" if found.late else "replaced_receipt", found.receipt, "a newer receipt took its place"


def _with(receipt: str | None) -> str:
    return "without a receipt" if receipt is None else f"with the receipt {receipt[:LONGEST_QUOTE]}"


def _is_own_intent(note: LedgerNote, found: LedgerRow) -> bool:
    return found.id == note.id and found.state == "begun" and found.token == note.token


def _verdict(note: LedgerNote, found: LedgerRow) -> str | None:
    """Keep the verdict of a look, together with the receipt that came after it."""
    return found.verdict if _is_receipt(note) and _only_seen(found) else note.verdict


def _row(round_: Round, note: LedgerNote, found: LedgerRow) -> Row:
    receipt = (note.receipt, _verdict(note, found))
    written = (note.token, round_.now, int(not found.owned_by(note)), note.attempt)
    return (note.n, note.name, note.state, *receipt, *written, note.token if note.state == "done" else None)


@writes(number=number_of)
def keep_looks(round_: Round, looked: Sequence[LookResults]) -> Script[list[bool]]:
    """Store what attempts found before they run; return for each whether it still has its job."""
    yield from lock_jobs(round_, (each.n for each in looked))
    rows = yield "standing_effects", {"effects": text([(each.n, "") for each in looked])}
    owned = [LedgerRow(*row)[:2] == (each.id, each.token) for each, row in zip(looked, rows, strict=True)]
    kept = [each for each, is_owned in zip(looked, owned, strict=True) if is_owned]
    seen = [row for each in kept for row in seen_rows(round_, each.n, each.token, each.attempt, each.looks)]
    yield from _keep_seen(seen)
    again = [each.n for each in kept if each.failed_before]
    if again:
        yield "count_looks", {"numbers": text(again), "failed": False}
    return owned


def _keep_seen(rows: Sequence[tuple[Any, ...]]) -> Script[None]:
    """Store the findings: the last verdict on each effect, and every look."""
    if not rows:
        return
    yield "write_verdicts", rows
    yield from _keep_every_look(rows)


def _keep_every_look(rows: Iterable[tuple[Any, ...]]) -> Script[None]:
    places: Counter[int] = Counter()
    looks = []
    for n, key, _, receipt, verdict, _, at, attempt in rows:
        places[n] += 1
        looks.append((n, places[n], key, verdict, receipt, at, attempt))
    if looks:
        yield "write_looks", looks


@writes()
def keep_looks_at_letters(round_: Round, looked: Sequence[LookResults]) -> Script[list[None]]:
    """Store the looks at letters that stay as they are: they are evidence, and change nothing."""
    yield from lock_jobs(round_, (each.n for each in looked))
    seen = [seen_rows(round_, each.n, each.token, each.attempt, each.looks) for each in looked]
    yield from _keep_every_look([row for rows in seen for row in rows])
    return [None] * len(looked)


def seen_rows(round_: Round, n: int, token: int, attempt: int, looks: Iterable[LookResult]) -> list[tuple[Any, ...]]:
    """Return the findings of a look as rows of the ledger."""
    return [(n, look.key, "seen", look.receipt, look.verdict, token, round_.now, attempt) for look in looks]


def receipt(n: int, name: str) -> Script[str | None]:
    """Read one receipt, as JSON text."""
    rows = yield "receipt_of", {"n": n, "name": name}
    return rows[0][0] if rows else None


def write_moves(round_: Round, moved: Sequence[Transition]) -> Script[None]:
    """Write what transitions say about effects, and about the progress of their jobs."""
    known = [(each, found) for each in moved if (found := each.rider(Findings))]
    looks = [row for each, found in known for row in seen_rows(round_, each.n, each.token, each.attempt, found.looks)]
    yield from _keep_seen(looks)
    reopened = [(each.n, name) for each, found in known for name in found.reopens]
    if reopened:
        yield "reopen_effects", {"effects": text(reopened), "doubted": DOUBTED}
    progressed = [each.n for each, found in known if found.progress]
    if progressed:
        yield "keep_progress", {"numbers": text(progressed)}
    failed = [each.n for each, found in known if found.look_failed]
    if failed:
        yield "count_looks", {"numbers": text(failed), "failed": True}
