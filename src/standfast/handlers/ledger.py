"""The ledger as a handler uses it: what it is about to do is on disk before, and what came of it after."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from standfast.asking import asked
from standfast.errors import ConfigurationError, LeaseLost, Permanent, Transient, Uncertain
from standfast.job import Claim, Entry, Note

log = logging.getLogger("standfast.worker")

LARGEST_RECEIPT = 64 << 10
"""Bytes of JSON a receipt may have: it is the name of what was done, not the thing itself."""
CAME_TO_NOTHING = (Transient, Permanent)
"""What a block is left by when nothing came of its effect."""

Answer = list[Entry | None]


class Undeclared(ConfigurationError, Permanent):
    """A handler named an effect that it does not declare; repeating it cannot help."""

    reason_code = "undeclared_effect"


class Writes(Protocol):
    """Where notes are written down."""

    def note(self, note: Note) -> Awaitable[Answer]:
        """Write a note."""

    def note_blocking(self, note: Note) -> Answer:
        """Write a note from code without a loop."""


class Ledger:
    """The effects of one attempt: what earlier ones left, and what this one does."""

    def __init__(self, store: Writes, claim: Claim, declared: Iterable[str], found: Iterable[str] = ()) -> None:
        self._store = store
        self._claim = claim
        self._declared = tuple(declared)
        self._entries = {entry.name: entry for entry in claim.ledger or ()}
        self._found = frozenset(found)
        """Effects that a look at the world found there, before this attempt."""
        self._own: set[str] = set()
        self._under_way: set[str] = set()

    @property
    def entries(self) -> list[Entry] | None:
        """How every effect stands, as far as this attempt knows."""
        return list(self._entries.values()) or None

    def block(self, name: str) -> Block:
        """Open a block around a declared effect."""
        if name not in self._declared:
            raise undeclared(name, self._claim.handler, self._claim.queue, self._declared)
        return Block(self, name)

    def meant(self, doubts: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Give the effects that a result's doubts are about: a name that is not declared may be a slip for any."""
        return () if doubts and not set(doubts) <= set(self._declared) else doubts

    # --- what a block asks for

    def standing(self, name: str) -> Entry | None:
        """Give how an effect stands."""
        return self._entries.get(name)

    def first_note(self, name: str) -> Note | None:
        """Give what to write before an effect: its intent, or that it was found; nothing if its receipt is here."""
        entry = self._entries.get(name)
        if entry is not None and entry.state == "done":
            return None
        if name in self._found:
            kept = None if entry is None else entry.receipt  # of an effect that was doubted, and is there after all
            return self._note(name, "done", kept, verdict="verified")
        if name in self._own and self._claim.replay_mode != "replay":
            raise Uncertain(
                f"effect {name!r} was begun in this attempt and nobody knows how it ended; let the attempt end: before "
                "it is repeated, somebody looks",
                reason_code="unknown_commit_state",
            )
        return self._note(name, "begun")

    def last_note(self, block: Block, error: BaseException | None) -> Note | None:
        """Give what to write after an effect; nothing if it stays open, or was written already."""
        if block.done:
            return None
        if error is None:
            return self._note(block.name, "done")
        if isinstance(error, CAME_TO_NOTHING) and not block.was_open:
            return self._note(block.name, "none")
        return None

    def intent(self, name: str, receipt: str | None) -> Note:
        """Give the note of an intent that leaves a trace: what was begun, so that a later attempt can look for it."""
        return self._note(name, "begun", receipt)

    def nothing(self, name: str) -> Note:
        """Give the note that nothing came of an effect that this attempt began."""
        return self._note(name, "none")

    def found(self, name: str) -> bool:
        """Tell whether a look found an effect before this attempt."""
        return name in self._found

    def done(self, name: str, receipt: str | None) -> Note:
        """Give the note of a receipt."""
        return self._note(name, "done", receipt)

    @contextmanager
    def entering(self, name: str) -> Iterator[Note | None]:
        """Give what to write before an effect, and let no second block of it be entered until this one is left."""
        if name in self._under_way:
            raise ConfigurationError(f"effect {name!r} is already under way in this attempt; give each its own name")
        entered = False
        self._under_way.add(name)
        try:
            yield self.first_note(name)
            entered = True
        finally:
            if not entered:
                self.leave(name)

    def leave(self, name: str) -> None:
        """Let the effect go on."""
        self._under_way.discard(name)

    def written(self, note: Note, answer: Entry | None) -> Entry | None:
        """Take note of how an effect stands after a note; raise LeaseLost if its intent was refused."""
        if note.state == "none":
            self._entries.pop(note.name, None)
            self._own.discard(note.name)
            return None
        if answer is None:
            raise LeaseLost(
                f"job {self._claim.id} was taken over: effect {note.name!r} must not begin here; stop"
                if note.state == "begun"
                else f"job {self._claim.id} is gone: what came of effect {note.name!r} could not be kept"
            )
        if answer.state == "begun":
            self._own.add(note.name)
        self._entries[note.name] = answer
        return answer

    async def write(self, note: Note) -> Entry | None:
        """Write a note, and wait until it is on disk."""
        [answer] = await self._store.note(note)
        return self.written(note, answer)

    def start(self, note: Note) -> Awaitable[Answer]:
        """Have a note written, without waiting for it."""
        return self._store.note(note)

    def write_blocking(self, note: Note) -> Entry | None:
        """Do the same in this thread."""
        [answer] = self._store.note_blocking(note)
        return self.written(note, answer)

    @property
    def identity(self) -> str:
        """What names this work to receivers."""
        return self._claim.identity

    @property
    def job_id(self) -> str:
        """Whose ledger it is."""
        return self._claim.id

    def _note(self, name: str, state: Any, receipt: str | None = None, verdict: str | None = None) -> Note:
        claim = self._claim
        return Note(claim.n, claim.token, claim.id, name, state, receipt, verdict, claim.attempts)


class Block:
    """One effect while a handler is at it. `done` and `receipt` say what an earlier attempt left, or this one."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self._ledger = ledger
        self._writing: tuple[Note, Awaitable[Answer]] | None = None
        self._in_loop = False
        self.name = name
        before = ledger.standing(name)
        self.was_open = before is not None and before.state == "begun"
        """Whether it was begun before and nobody knows how that ended: then this block alone cannot close it."""
        self._take(before)

    @property
    def key(self) -> str:
        """A stable identity of this effect, the same on every attempt and replay: hand it to the receiver."""
        return key_of(self._ledger.identity, self.name)

    def record(self, receipt: Any) -> None:
        """Keep what came of the effect, as JSON: it is given back on every later attempt."""
        kept = self._readable(receipt)
        note = self._ledger.done(self.name, kept)
        if self._in_loop:
            self._writing = (note, self._ledger.start(note))
        else:
            self._ledger.write_blocking(note)
        self._take(Entry(self.name, "done", kept))

    def _readable(self, receipt: Any) -> str | None:
        """Give a receipt as JSON; one that cannot be kept never fails an effect that is done."""
        text = asked(lambda: msgspec.json.encode(receipt).decode(), lambda error: f"\0{error}")
        if not text.startswith("\0") and len(text.encode()) <= LARGEST_RECEIPT:
            return text
        why = text[1:] if text.startswith("\0") else f"it has more than {LARGEST_RECEIPT} bytes"
        log.error(
            "the receipt of effect %s of job %s is not kept (%s): it is done, and later attempts get None; return what "
            "names it, such as its id",
            *(self.name, self._ledger.job_id, why),
        )
        return None

    async def __aenter__(self) -> Self:
        self._in_loop = True
        with self._ledger.entering(self.name) as note:
            if note is not None:
                self._take(await self._ledger.write(note))
        return self

    def __enter__(self) -> Self:
        with self._ledger.entering(self.name) as note:
            if note is not None:
                self._take(self._ledger.write_blocking(note))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ledger.leave(self.name)
        if self._writing is not None:
            note, writing = self._writing
            [answer] = await writing
            self._ledger.written(note, answer)
        last = self._ledger.last_note(self, error)
        if last is not None:
            self._take(await self._ledger.write(last))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ledger.leave(self.name)
        last = self._ledger.last_note(self, error)
        if last is not None:
            self._take(self._ledger.write_blocking(last))

    def _take(self, entry: Entry | None) -> None:
        self.done = entry is not None and entry.state == "done"
        kept = entry.receipt if self.done and entry is not None else None
        self.receipt: Any = None if kept is None else msgspec.json.decode(kept)


def key_of(identity: str, name: str) -> str:
    """Give the stable identity of an effect of a job."""
    return f"{identity}.{name}"


def undeclared(name: str, handler: str, queue: str, declared: tuple[str, ...]) -> Undeclared:
    """Word the refusal of an effect that its handler does not declare, with the line to add."""
    if not declared:
        line = f"@sf.handler({queue!r}, effects=[Effect({name!r})])"
        return Undeclared(f"handler {handler} declares no effects; to use {name!r}, write {line}")
    return Undeclared(f"handler {handler} does not declare an effect {name!r}; declared are {', '.join(declared)}")
