"""The part of YAML 1.2 that a policy may use: maps, lists and plain values, each knowing its line and column.

Left out on purpose: anchors and aliases (YAML bombs are made of them), tags, directives, a second document.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from standfast.concurrency.guarded import call_guarded
from standfast.errors import ConfigurationError, PolicyRefused
from standfast.printable import printable
from standfast.wings.policy.pasted import indented

LARGEST = 128 * 1024
"""The most bytes of a policy: enough for a thousand rules."""
DEEPEST = 8
"""The deepest nesting allowed; a policy needs six levels."""
LONGEST_QUOTE = 60

_TAB = re.compile(r"^ *\t", re.MULTILINE)
_HINTS = {
    "scanning a block scalar": 'put a comparison in quotes, as in "> 2h"',
    "scanning an alias": "put a text that begins with * in quotes",
    "cannot start any token": 'put this text in quotes, as in "> 2h"',
}
"""A hint at the probable mistake, by the parser's message."""


class MissingExtra(ConfigurationError):
    """Nothing is known of the policy: the package that reads it is not installed where this process runs."""


class Place(msgspec.Struct, frozen=True):
    """A line and a column, both counted from 1, in a named text."""

    source: str
    line: int
    column: int

    def refusal(self, message: str) -> PolicyRefused:
        """Return the error for what stands at this place."""
        return PolicyRefused(message, source=self.source, line=self.line, column=self.column)


class Scalar(msgspec.Struct, frozen=True):
    """One value as it was written; a `plain` one has no quotes, so that it may be a number."""

    place: Place
    text: str
    plain: bool


class Items(msgspec.Struct, frozen=True):
    """A list."""

    place: Place
    items: list[Node]


class Mapping(msgspec.Struct, frozen=True):
    """A map; its keys are texts, each used once."""

    place: Place
    keys: dict[str, Scalar]
    values: dict[str, Node]


Node = Scalar | Items | Mapping


def quoted(text: str) -> str:
    """Show a piece of the text in a message, in one short line."""
    shown = printable(text[: LONGEST_QUOTE + 1])
    return f"'{shown[:LONGEST_QUOTE]}…'" if len(shown) > LONGEST_QUOTE else f"'{shown}'"


def read_document(given: str | bytes, source: str) -> Node:
    """Read a whole text, or refuse it at the place where it cannot be read."""
    text, shifts = indented(_decoded(given, source))
    tab = _TAB.search(text)
    if tab:
        raise _place_of(text, tab.end() - 1, source).refusal("a tab in the indentation; indent with spaces")
    return _Reader(text, source, shifts).read()


def _decoded(given: str | bytes, source: str) -> str:
    beginning = Place(source, 1, 1)
    try:
        raw = given.encode() if isinstance(given, str) else given
        text = raw.decode()
    except UnicodeEncodeError as error:
        raise _place_of(str(given), error.start, source).refusal(
            "half a surrogate pair, which is not a character"
        ) from None
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode(errors="replace")
        raise _place_of(before, len(before), source).refusal(
            "a byte that is not UTF-8; save the file as UTF-8"
        ) from None
    if len(raw) > LARGEST:
        raise beginning.refusal(f"the text has {len(raw)} bytes where {LARGEST} are allowed")
    return text


def _place_of(text: str, position: int, source: str) -> Place:
    before = text[:position]
    return Place(source, before.count("\n") + 1, position - before.rfind("\n"))


class _Reader:
    """Builds the nodes of one text from its parser's events, which come one at a time, on demand."""

    def __init__(self, text: str, source: str, shifts: dict[int, int]) -> None:
        self._text = text
        self._source = source
        self._shifts = shifts
        self._here = Place(source, 1, 1)
        self._events = _parser(source).parse(text)

    def read(self) -> Node:
        self._next()  # the stream's beginning
        begin = self._next()
        if _kind(begin) == "StreamEnd":
            raise self._here.refusal("the text is empty; a policy begins with 'version: v1'")
        if begin.version is not None or begin.tags:
            raise self._here.refusal("a directive (%); leave it out, this is read as YAML 1.2")
        root = self._node(self._next(), 1)
        self._next()  # the document's end
        if _kind(self._next()) != "StreamEnd":
            raise self._here.refusal("a second document ('---'); a policy is one")
        return root

    def _node(self, event: Any, depth: int) -> Node:
        self._check(event, depth)
        match _kind(event):
            case "Scalar":
                return Scalar(self._here, event.value, event.style is None)
            case "SequenceStart":
                return Items(self._here, [self._node(item, depth + 1) for item in self._until("SequenceEnd")])
            case _:
                return self._mapping(depth)

    def _mapping(self, depth: int) -> Mapping:
        mapping = Mapping(self._here, {}, {})
        for event in self._until("MappingEnd"):
            key = self._node(event, depth + 1)
            if not isinstance(key, Scalar):
                raise key.place.refusal("a key must be a text")
            if key.text in mapping.keys:
                first = mapping.keys[key.text].place.line
                raise key.place.refusal(f"the key {quoted(key.text)} occurs twice (first in line {first})")
            mapping.keys[key.text] = key
            mapping.values[key.text] = self._node(self._next(), depth + 1)
        return mapping

    def _check(self, event: Any, depth: int) -> None:
        if _kind(event) == "Alias":
            raise self._here.refusal("an alias (*); write the value out, or put a text that begins with * in quotes")
        if event.anchor is not None:
            raise self._here.refusal("an anchor (&); write the value out wherever it is meant")
        if event.tag is not None:
            raise self._here.refusal("a tag (!); leave it out, a key says by itself what it takes")
        if depth > DEEPEST:
            raise self._here.refusal(f"this is nested deeper than {DEEPEST} levels")

    def _until(self, end: str) -> Iterator[Any]:
        while _kind(event := self._next()) != end:
            yield event

    def _next(self) -> Any:
        event = call_guarded(lambda: next(self._events), self._unreadable)
        self._here = self._place(event.start_mark)
        return event

    def _place(self, mark: Any) -> Place:
        column = mark.column - self._shifts.get(mark.line, 0)
        return Place(self._source, mark.line + 1, max(column, 0) + 1)

    def _unreadable(self, error: Exception) -> Any:
        """Refuse with the parser's error: it mostly has a mark, for odd characters a position, otherwise neither."""
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        position = getattr(error, "position", None)
        place = self._here
        if mark is not None:
            place = self._place(mark)
        elif isinstance(position, int):
            place = _place_of(self._text, position, self._source)
        words = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        problem = f"{getattr(error, 'context', None)} {words}"
        hint = next((f"; {hint}" for about, hint in _HINTS.items() if about in problem), "")
        raise place.refusal(f"this is not YAML: {printable(words)}{hint}") from error


def _kind(event: Any) -> str:
    return type(event).__name__.removesuffix("Event")


def _parser(source: str) -> Any:
    try:
        from ruamel.yaml import YAML  # noqa: PLC0415 - an extra, needed only with a policy
    except ImportError as error:
        importlib.invalidate_caches()  # so that the next try finds what was installed meanwhile
        raise MissingExtra(f'{source} cannot be read without an extra; run: pip install "standfast[policy]"') from error
    return YAML(typ="safe", pure=True)
