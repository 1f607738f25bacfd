"""One effect or step while a handler works on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

import msgspec

from standfast.concurrency.guarded import call_guarded
from standfast.errors import ValueNotKept
from standfast.failure import Verdict
from standfast.job import UNKEPT, LedgerEntry, LedgerNote, label_of
from standfast.wings.effects.values import as_returned

if TYPE_CHECKING:
    from standfast.wings.effects.ledger import Ledger


class Block:
    """One effect during its handler. `done` and `receipt` tell what this or an earlier attempt recorded."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self._ledger = ledger
        self._writing: tuple[LedgerNote, Awaitable[LedgerEntry | None]] | None = None
        self._in_loop = False
        self.entry = name
        """Its key in the ledger."""
        self.name = label_of(name)
        before = ledger.state_of(name)
        self.was_open = before is not None and before.state == "begun" and before.verdict != Verdict.ABSENT
        """Whether it was begun before and no look found it absent: then this block alone cannot close it."""
        self._take(before)

    @property
    def key(self) -> str:
        """A stable identity of this effect, the same on every attempt and replay: hand it to the receiver."""
        return key_of(self._ledger.identity, self.name)

    @property
    def receipt(self) -> Any:
        """What was recorded, as plain JSON values; None if nothing was."""
        text = self._text()
        return None if text is None else msgspec.json.decode(text)

    def returned(self, function: Callable[..., Any]) -> Any:
        """Return the recorded value as the function's return type, on every attempt alike; raise if it was not kept."""
        if self._unkept:
            raise ValueNotKept(
                f"{self.name!r} is done, and what it returned could not be kept; let its verify answer "
                "Found(receipt), or use job.effect and look at e.done"
            )
        text = self._text()
        return None if text is None else as_returned(text, function)

    def record(self, receipt: Any) -> None:
        """Keep the result of the effect, as JSON: every later attempt gets it back.

        Raises ValueNotKept for a value that is not JSON or is too big. The effect still counts as done then.
        """
        kept = call_guarded(partial(self._ledger.encode, receipt), self._not_kept)
        self._begin_to_write(self._ledger.done(self.entry, kept))

    def _not_kept(self, error: Exception) -> NoReturn:
        self._begin_to_write(self._ledger.unkept_note(self.entry))
        raise ValueNotKept.because(self.name, str(error)) from error

    def _begin_to_write(self, note: LedgerNote | None) -> None:
        if note is None:
            return
        if self._in_loop:
            self._writing = (note, self._ledger.write(note).start())
        else:
            self._write(note)
        self._take(LedgerEntry(self.entry, "done", note.receipt, note.verdict))

    async def __aenter__(self) -> Self:
        self._in_loop = True
        with self._ledger.entering(self.entry) as note:
            if note is not None:
                self._take(self._ledger.written(note, await self._ledger.write(note)))
            if self._left_out:
                self._read(await self._ledger.fetch(self.entry))
        return self

    def __enter__(self) -> Self:
        with self._ledger.entering(self.entry) as note:
            if note is not None:
                self._take(self._write(note))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ledger.leave(self.entry)
        if self._writing is not None:
            note, writing = self._writing
            self._ledger.written(note, await writing)
        last = self._ledger.last_note(self, error)
        if last is not None:
            self._take(self._ledger.written(last, await self._ledger.write(last)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ledger.leave(self.entry)
        last = self._ledger.last_note(self, error)
        if last is not None:
            self._take(self._write(last))

    def _write(self, note: LedgerNote) -> LedgerEntry | None:
        """Write a note, and wait in this thread until it is on disk."""
        return self._ledger.written(note, self._ledger.write(note).result())

    def _take(self, entry: LedgerEntry | None) -> None:
        self.done = entry is not None and entry.state == "done"
        self._unkept = entry is not None and self.done and entry.verdict == UNKEPT
        self._left_out = entry is not None and self.done and bool(entry.left_out)
        self._kept = entry.receipt if self.done and entry is not None else None

    def _text(self) -> str | None:
        if self._left_out:
            self._read(self._ledger.fetch(self.entry).result())
        return self._kept

    def _read(self, receipt: str | None) -> None:
        self._kept, self._left_out = receipt, False


def key_of(identity: str, name: str) -> str:
    """Return the stable identity of an effect of a job."""
    return f"{identity}.{name}"
