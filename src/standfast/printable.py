"""Text from outside, made safe to show: no character of it acts on a terminal or turns the direction of writing."""

from __future__ import annotations

import re

_ACTING = (
    r"[\x00-\x1f\x7f-\x9f]"  # control characters, the escape among them
    r"|[\ud800-\udfff]"  # half a surrogate pair: no database and no JSON takes it
    r"|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # turns the direction of writing
    r"|[\u2028\u2029]"  # ends a line or a paragraph
)
_SEQUENCE = r"\x1b\[[0-?]*[ -/]*[@-~]"  # a terminal's escape sequence, whole

_spaces = re.compile(r"[\t\n\v\f\r\x85\u2028\u2029]+")
_character = re.compile(_ACTING)
_sequence_or_character = re.compile(f"{_SEQUENCE}|{_ACTING}")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(text: str) -> str:
    """Give one line that can be kept and shown; what cannot be shown becomes U+FFFD."""
    return _sequence_or_character.sub("\ufffd", _spaces.sub(" ", text))


def escaped(text: str) -> str:
    r"""Give one line that loses nothing: an acting character stands there as JSON writes it, such as `\u001b`.

    JSON text stays the same JSON.
    """
    return _character.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\u{ord(match[0]):04x}"
