"""The ledger: what attempts do to the world, written down before and after. One row for each effect, two writes.

An intent of a worker that lost its job is refused: it must not act. Its receipt is kept all the same, marked late,
because fencing guards the state of a job and not what happened in the world.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import NamedTuple

from standfast.job import Entry, Note
from standfast.store.steps import Round, Rows, Script, Step, text

Row = tuple[int, str, str, str | None, str | None, int, float, int]


class Standing(NamedTuple):
    """An effect as it stands, with its job. Field order is the statement's."""

    id: str | None
    running_under: int | None
    state: str | None
    receipt: str | None
    verdict: str | None
    late: int | None
    token: int | None

    def owned_by(self, note: Note) -> bool:
        """Tell whether the attempt that writes this still has its job."""
        return self.id == note.id and self.running_under == note.token

    def entry(self, name: str) -> Entry:
        """Give it as an attempt knows it."""
        return Entry(name, self.state, self.receipt, self.verdict, self.late or 0)  # type: ignore[arg-type]


def write(round_: Round, notes: Sequence[Note]) -> Script:
    """Write notes down; answer for each how its effect stands then, or None if the note was refused."""
    yield "lock_jobs", {"numbers": text(sorted({note.n for note in notes}))}
    answers: dict[int, Entry | None] = {}
    for batch in _apart(notes):
        answers |= yield from _write(round_, {place: notes[place] for place in batch})
    return [answers[place] for place in range(len(notes))]


def _apart(notes: Sequence[Note]) -> Iterable[list[int]]:
    """Part the places of notes so that those of one effect, by two workers, are written one after the other."""
    batches: list[dict[tuple[int, str], int]] = []
    for place, note in enumerate(notes):
        effect = (note.n, note.name)
        batch = next((each for each in batches if effect not in each), None)
        if batch is None:
            batches.append(batch := {})
        batch[effect] = place
    return [list(batch.values()) for batch in batches]


def _write(round_: Round, notes: dict[int, Note]) -> Generator[Step, Rows, dict[int, Entry | None]]:
    rows = yield "standing_effects", {"effects": text([(note.n, note.name) for note in notes.values()])}
    answers: dict[int, Entry | None] = {}
    written: list[Row] = []
    dropped: list[tuple[int, str]] = []
    for (place, note), row in zip(notes.items(), rows, strict=True):
        found = Standing(*row)
        answers[place] = _after(note, found)
        if note.state == "none":
            dropped += [(note.n, note.name)] if _is_own_intent(note, found) else []
        elif answers[place] is not None and _changes(note, found):
            written.append(_row(round_, note, late=not found.owned_by(note)))
    if written:
        yield "write_effects", written
    if dropped:
        yield "drop_effects", {"effects": text(dropped)}
    return answers


def _after(note: Note, found: Standing) -> Entry | None:
    """Say how an effect stands after a note: somebody else's receipt is there to be used, not to be written over."""
    if note.state == "none" or found.id != note.id or (note.state == "begun" and not found.owned_by(note)):
        return None
    if _changes(note, found):
        return Entry(note.name, note.state, note.receipt, note.verdict, int(not found.owned_by(note)))
    return found.entry(note.name)


def _changes(note: Note, found: Standing) -> bool:
    """Tell whether a note is written: an intent unless it is done already, a receipt unless a newer one is there.

    What a look found done has no receipt, and takes the place of none.
    """
    if found.state != "done":
        return True
    is_receipt = note.state == "done" and note.verdict is None
    return is_receipt and (found.owned_by(note) or (found.token or 0) < note.token)


def _is_own_intent(note: Note, found: Standing) -> bool:
    return found.id == note.id and found.state == "begun" and found.token == note.token


def _row(round_: Round, note: Note, *, late: bool) -> Row:
    receipt = (note.receipt, note.verdict)
    return (note.n, note.name, note.state, *receipt, note.token, round_.now, int(late))
