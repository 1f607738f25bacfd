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


# --- numbers, sizes and lengths of time: JSON has plain numbers, sizes in bytes, and lengths of time in seconds

NOTHING = "\N{EN DASH}"
"""Stands where there is no value."""
APART = "\N{NO-BREAK SPACE}"
"""Stands between thousands: a number stays on its line, and a program that splits lines at spaces gets it whole."""
SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
DIGITS = 3
"""So many digits of a size are shown: what is free and what is needed are told apart."""
SPANS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def number(value: float | None) -> str:
    """Write a number so that its thousands stand apart: `1 000 000`."""
    return NOTHING if value is None else f"{value:,}".replace(",", APART)


def count_of(value: int, what: str) -> str:
    """Say how many there are: `1 job`, `2 jobs`, `30 000 jobs`."""
    return f"{number(value)} {what}" if value == 1 else f"{number(value)} {what}s"


def data_size(value: int) -> str:
    """Write a number of bytes in the largest unit that fits, rounded down: `500 bytes`, `1.5 KiB`, `63.9 MiB`."""
    for size, unit in SIZES:
        if value >= size:
            scale = 10 ** max(0, DIGITS - len(str(value // size)))
            shown = value * scale // size / scale
            return f"{number(int(shown) if shown.is_integer() else shown)} {unit}"
    return count_of(value, "byte")


def span(seconds: float | None) -> str:
    """Write a length of time in its two largest units: `250 ms`, `5 s`, `1 min 30 s`, `2 h`."""
    if seconds is None:
        return NOTHING
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds > 0 else "0 s"
    seconds = round(seconds)
    for place, (size, unit) in enumerate(SPANS):
        if seconds >= size:
            rest = SPANS[place + 1] if place + 1 < len(SPANS) else None
            more = 0 if rest is None else int(seconds % size // rest[0])
            return f"{int(seconds // size)} {unit}" + (f" {more} {rest[1]}" if rest and more else "")
    return "0 s"
