"""Text from outside, made safe to show: no character of it acts, hides, or turns the direction of writing.

Joiners count too: two names that look alike must not differ unseen. An emoji that is made of several comes apart.
"""

from __future__ import annotations

import re

_ACTING = (
    r"[\x00-\x1f\x7f-\x9f]"  # control characters, the escape among them
    r"|[\ud800-\udfff]"  # half a surrogate pair: no database and no JSON takes it
    r"|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # turns the direction of writing
    r"|[\u2028\u2029]"  # ends a line or a paragraph
    r"|[\xad\u034f\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff]"  # has no width: joiners, soft hyphen
    r"|[\ufe00-\ufe0f]"  # chooses how the character before it looks: an emoji, or any letter, in which bytes hide
    r"|[\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U00016fe4\U0001d159]"  # letters and notes that show nothing
    r"|[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\ufff0-\ufffb]"  # says how others are shown
    r"|[\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a]"  # likewise
    r"|[\U000e0000-\U000e0fff]"  # tags and selectors, in which whole sentences hide
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


def without_unseen(text: str) -> str:
    """Give a text without what acts or shows nothing, to compare it with another by what people see."""
    return _character.sub("", text)


def visible(text: str) -> str:
    """Do the same with a text of many lines, and keep its lines."""
    return text if text.isprintable() else "\n".join(map(escaped, text.split("\n")))


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")  # JSON writes what is beyond 16 bits as two
    return _SHORT.get(match[0]) or "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
