"""The ledger as a handler uses it: each intent is on disk before the effect, and each result after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from standfast.concurrency.flows import Answer
from standfast.errors import (
    ConfigurationError,
    LeaseLost,
    Permanent,
    Transient,
    Uncertain,
    ValueNotKept,
)
from standfast.failure import Verdict
from standfast.job import DOUBTED, OTHER_ARGUMENTS, STEP, UNKEPT, Claim, LedgerEntry, LedgerNote, label_of
from standfast.store.requests import Request
from standfast.store.store import Store
from standfast.wings.effects.block import Block
from standfast.wings.effects.scripts import for_note, receipt

LONGEST_NAME = 200
MOST_ENTRIES = 10_000
"""The most effects and steps of one job: progress opens a new round, so without a limit a job could go on forever."""
CAME_TO_NOTHING = (Transient, Permanent)
"""The exceptions with which a handler leaves a block if its effect did not happen."""


class Undeclared(ConfigurationError, Permanent):
    """A handler named an effect that it does not declare; repeating it cannot help."""

    reason_code = "undeclared_effect"


class ArgumentsChanged(ConfigurationError, Permanent):
    """An effect that must not be done twice was called with other arguments than an earlier attempt gave it."""

    reason_code = "arguments_changed"


Encode = Callable[[Any], str]
"""Returns the JSON to keep of a value; raises PayloadRejected if it cannot be kept."""


class Ledger:
    """The effects of one attempt: what earlier attempts left, and what this one does."""

    def __init__(self, store: Store, claim: Claim, encode: Encode, declared: Iterable[str] = ()) -> None:
        self._store = store
        self._claim = claim
        self.encode = encode
        self._declared = tuple(declared)
        self._entries = {entry.name: entry for entry in claim.ledger or ()}
        self._redone = {entry.name for entry in claim.ledger or () if entry.verdict == DOUBTED}
        self._own: set[str] = set()
        self._under_way: set[str] = set()
        self._asked_for: set[str] = set()
        self.progressed = bool(claim.progressed)
        """Whether this attempt recorded a receipt or step that was not there before."""

    @property
    def declared(self) -> tuple[str, ...]:
        """The effects that the handler declares."""
        return self._declared

    @property
    def entries(self) -> list[LedgerEntry] | None:
        """The entries of all effects, as far as this attempt knows."""
        return list(self._entries.values()) or None

    def added_to(self, claim: Claim) -> Claim:
        """Return a claim with what this attempt did to the world."""
        return replace(claim, ledger=self.entries, progressed=int(self.progressed))

    def block(self, name: str) -> Block:
        """Open a block around a declared effect."""
        if name not in self._declared:
            raise undeclared(name, self._claim.handler, self._claim.queue, self._declared)
        return Block(self, self._block_key(name))

    def _block_key(self, name: str) -> str:
        """Find the entry of an effect by its name alone: a single call of `once` also counts for a block."""
        if name in self._entries and not self._is_missing(name):
            return name
        calls = [entry.name for entry in self._entries.values() if entry.label == name and entry.name != name]
        if len(calls) > 1:
            self._check_arguments(name)
        return calls[0] if len(calls) == 1 else name

    def call(self, name: str, arguments: str, *, declared: bool) -> Block:
        """Open a block around a call with these arguments: of a declared effect, or of a step of any name."""
        if declared and name not in self._declared:
            raise undeclared(name, self._claim.handler, self._claim.queue, self._declared)
        _check_name(name)
        key = self._key(name, arguments, is_step=name not in self._declared)
        self._asked_for.add(key)
        return Block(self, key)

    def _key(self, name: str, arguments: str, *, is_step: bool) -> str:
        """Find the entry of a call by its name and arguments, or return the key of a new one.

        An effect that a block did or a look found has no arguments: it counts for every call of that name.
        """
        as_effect, as_step = f"{name}{OTHER_ARGUMENTS}{arguments}", f"{name}{OTHER_ARGUMENTS}{STEP}{arguments}"
        for key in (as_effect, as_step, name):
            if key in self._entries and not (key == name and self._is_missing(name)):
                return key
        self._check_arguments(name)
        return as_step if is_step else as_effect

    def _is_missing(self, name: str) -> bool:
        """Return whether all that is known of an effect is that a look did not find it."""
        entry = self._entries[name]
        return entry.state == "seen" and entry.verdict != Verdict.VERIFIED

    def _check_arguments(self, name: str) -> None:
        """Refuse an effect that must not be done twice, if an earlier attempt's call of it was not repeated yet.

        Its arguments may differ from attempt to attempt (a time, a random key): then it would be done twice.
        """
        if self._claim.replay_mode == "replay" or name not in self._declared:
            return
        before = [each for each in self._claim.ledger or () if each.label == name and each.state != "seen"]
        if any(each.name not in self._asked_for for each in before):
            raise ArgumentsChanged(
                f"effect {name!r} was called by an earlier attempt with other arguments and may be done; give it the "
                "same arguments on every attempt (no present time, no random value), or each its own effect"
            )

    def doubted_effects(self, doubts: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the effects that a result's doubts are about: an undeclared name may be a typo for any of them."""
        return () if doubts and not set(doubts) <= set(self._declared) else doubts

    # --- what a block asks for

    def state_of(self, name: str) -> LedgerEntry | None:
        """Return the entry of an effect."""
        return self._entries.get(name)

    def first_note(self, name: str) -> LedgerNote | None:
        """Return the note to write before an effect: its intent, or that it was found; None if it has its receipt."""
        entry = self._entries.get(name)
        if entry is not None and entry.state == "done":
            return None
        if entry is not None and entry.state == "seen" and entry.verdict == Verdict.VERIFIED:
            return self._note(name, "done", entry.receipt, verdict=entry.verdict)
        self._check_room(name)
        if name in self._own and self._claim.replay_mode != "replay":
            raise Uncertain(
                f"effect {label_of(name)!r} was begun in this attempt and its outcome is unknown; let the "
                "attempt end: its check runs before it is repeated",
                reason_code="unknown_commit_state",
            )
        return self._note(name, "begun")

    def last_note(self, block: Block, error: BaseException | None) -> LedgerNote | None:
        """Return the note to write after an effect; None if it stays open or was written already."""
        if block.done:
            return None
        if error is None:
            return self._note(block.entry, "done")
        if isinstance(error, CAME_TO_NOTHING) and not isinstance(error, ValueNotKept) and not block.was_open:
            return self._note(block.entry, "none")
        return None

    def unkept_note(self, name: str) -> LedgerNote | None:
        """Return the note for a value that cannot be kept. A declared effect is done, and is not repeated.

        A step stays open: a person who lets it run again may change what it returns.
        """
        return self._note(name, "done", None, UNKEPT) if label_of(name) in self._declared else None

    def _check_room(self, name: str) -> None:
        if name not in self._entries and len(self._entries) >= MOST_ENTRIES:
            raise Permanent(
                f"job {self._claim.id} has {MOST_ENTRIES} effects and steps, the most that one job keeps; enqueue the "
                "rest as jobs of their own",
                reason_code="too_many_steps",
            )

    def intent(self, name: str, receipt: str | None) -> LedgerNote:
        """Return the note of an intent with a receipt: what was begun, so that a later attempt can look for it."""
        return self._note(name, "begun", receipt)

    def nothing(self, name: str) -> LedgerNote:
        """Return the note that an effect which this attempt began did not happen."""
        return self._note(name, "none")

    def is_there(self, name: str) -> bool:
        """Return whether an effect exists: a look found it, or an earlier attempt recorded it."""
        entry = self._entries.get(name)
        return entry is not None and (entry.state == "done" or entry.verdict == Verdict.VERIFIED)

    def done(self, name: str, receipt: str | None) -> LedgerNote:
        """Return the note of a receipt."""
        return self._note(name, "done", receipt)

    @contextmanager
    def entering(self, name: str) -> Iterator[LedgerNote | None]:
        """Yield the note to write before an effect, and let no second block of it be entered until this one is left."""
        if name in self._under_way:
            raise ConfigurationError(
                f"effect {label_of(name)!r} is already under way in this attempt; give each its own name"
            )
        entered = False
        self._under_way.add(name)
        try:
            yield self.first_note(name)
            entered = True
        finally:
            if not entered:
                self.leave(name)

    def leave(self, name: str) -> None:
        """Let another block of the effect be entered."""
        self._under_way.discard(name)

    def written(self, note: LedgerNote, answer: LedgerEntry | None) -> LedgerEntry | None:
        """Record an effect's entry after a note was written; raise LeaseLost if its intent was refused."""
        if note.state == "none":
            self._entries.pop(note.name, None)
            self._own.discard(note.name)
            return None
        if answer is None:
            raise LeaseLost(
                f"job {self._claim.id} was taken over: effect {label_of(note.name)!r} must not begin here; stop"
                if note.state == "begun"
                else f"job {self._claim.id} is gone: the result of effect {label_of(note.name)!r} could not be stored"
            )
        before = self._entries.get(note.name)
        if answer.state == "begun":
            self._own.add(note.name)
        elif (before is None or before.state != "done") and note.name not in self._redone:
            self.progressed = True
        self._entries[note.name] = answer
        return answer

    def write(self, note: LedgerNote) -> Request[LedgerEntry | None]:
        """Write a note; the caller hands the store's answer to `written`."""
        return self._store.write(for_note(note), note)

    def fetch(self, name: str) -> Answer[str | None]:
        """Read a receipt that was too big to come with the job."""
        return self._store.read(receipt(self._claim.n, name))

    @property
    def identity(self) -> str:
        """The name of this work for receivers."""
        return self._claim.identity

    def _note(self, name: str, state: Any, receipt: str | None = None, verdict: str | None = None) -> LedgerNote:
        claim = self._claim
        return LedgerNote(claim.n, claim.token, claim.id, name, state, receipt, verdict, claim.attempts)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise ConfigurationError(f"a step is named by up to {LONGEST_NAME} printable characters, not {name!r}")


def undeclared(name: str, handler: str, queue: str, declared: tuple[str, ...]) -> Undeclared:
    """Return the error for an effect that its handler does not declare, with the line to add."""
    if not declared:
        line = f"@sf.handler({queue!r}, effects=[Effect({name!r})])"
        return Undeclared(f"handler {handler} declares no effects; to use {name!r}, write {line}")
    return Undeclared(f"handler {handler} does not declare an effect {name!r}; declared are {', '.join(declared)}")
