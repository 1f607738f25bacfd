"""Which letters died of the same cause: the parts of a message that vary are removed, and the rest is hashed.

A fingerprint is stored with its letter and compared with those of years ago, so these patterns never change: a change
needs a new VERSION. They are ASCII, because which other characters are letters or digits depends on Python's version.
Each looks back at most two characters, and ahead only over what it takes, so any message costs linear time.

Every death pays for this, so the pattern is written for speed: sets are spelled out instead of ignoring case, each
alternative begins with a character that rules out most places, and plain words are skipped whole. Groups are repeated
only inside `(?>…)`, never with `++`: before Python 3.11.5, `++` loses its place if the last round fails.
`tests/core/test_fingerprint.py` compares it with the same patterns in their plain form.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache, lru_cache

from standfast.failure import Failure
from standfast.redact import may_hold_secret, redacted_text

VERSION = "1"
LONGEST_MESSAGE = 8192
"""How many characters of a message are looked at."""
LONGEST_NORMAL_FORM = 1024
"""How many characters of it count once everything that varies is removed."""
GONE = "#"

_LETTER = "[A-Za-z]"
_WORD = "[A-Za-z0-9_]"
_HEX = "[0-9A-Fa-f]"
_SPACE = r" \t\r\n\f\v"


def _any_case(*words: str) -> str:
    """Build a pattern for any of these words, in capitals or not."""
    return "(?:" + "|".join("".join(f"[{each.upper()}{each}]" for each in word) for word in words) + ")"


def _any(*patterns: str) -> str:
    return "(?:" + "|".join(patterns) + ")"


_A_DAY = _any_case("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = f"{_any_case(*_MONTHS)}{_LETTER}*+"
_ZONE = _any(_any_case("gmt", "utc"), "[+-][0-9]+")
_TIME_OF_DAY = f"(?: [0-9]+(?::[0-9]+)*)*(?: ?{_ZONE})?(?!{_WORD})"
_STEP = rf"[/\\][^{_SPACE}/\\'\":,;()<>]++"
_PATH = rf"(?>(?:{_STEP})+)[/\\]?"

# What follows the first character of each. They also look behind that character; in the lookbehinds it is the `.`.
_WEB_ADDRESS = rf"(?<![+.-].)[A-Za-z0-9_+.-]{{0,30}}+://[^{_SPACE}'\"<>]++"
_MAIL_ADDRESS = r"(?<![.+-].)[A-Za-z0-9_.+-]{0,63}+@[A-Za-z0-9_.-]++"
_COLONS = rf"(?<!:.){_HEX}*+:(?>(?:{_HEX}*+:)+)[A-Za-z0-9_-]*+"  # IPv6, hardware addresses, times of day
_HEXADECIMAL = rf"(?<!-.){_HEX}{{7,}}+(?>(?:-{_HEX}++)*)(?![A-Za-z0-9_-])"  # even if it has no digit
_NUMBERED = r"(?<!-.)[A-Za-z_-]*+[0-9][A-Za-z0-9_-]*+"  # anything with a digit: ids, uuids, dates, versions
_IN_HEX = "(?<=[A-Fa-f])"

_by_letter = f"{_LETTER}(?={_LETTER}*+[0-9_+.:@-])" + _any(
    _NUMBERED + "(?![.+:@])",  # not followed by one of these, it can be nothing else; tried first, because most are
    *(_WEB_ADDRESS, _MAIL_ADDRESS, f"(?<!/.):{_PATH}", _IN_HEX + _COLONS, _NUMBERED, _IN_HEX + _HEXADECIMAL),
)
_by_digit = "[0-9]" + _any(
    rf"(?<!-.)[A-Za-z0-9_-]*+(?![.+@]|:[0-9A-Fa-f:]| {_any_case(*_MONTHS)})",  # likewise
    *(_MAIL_ADDRESS, f"[0-9]*+ {_MONTH}{_TIME_OF_DAY}", _COLONS, "(?<!-.)[A-Za-z0-9_-]*+"),
)
_by_mark = "[_.+-]" + _any(
    f"(?<!{_WORD}.){_MAIL_ADDRESS}",
    f"(?<=[_-])(?<!{_WORD}.){_NUMBERED}",
    rf"(?<=\.)(?<![A-Za-z0-9_/].)\.?{_PATH}",
)
_varying = _any(
    _by_letter,
    f"(?=[AaDdFfJjMmNnOoSsTtWw])(?:{_A_DAY}{_LETTER}*+,? )?(?:[0-9]++ {_MONTH}|{_MONTH} [0-9]+){_TIME_OF_DAY}",
    f"[A-Fa-f]{_HEXADECIMAL}",
    _by_digit,
    rf"'(?<!{_WORD}')[^'\n]*+'(?!{_WORD})",  # quoted texts; an apostrophe is inside a word
    r'"[^"\n]*+"',
    r"`[^`\n]*+`",
    _by_mark,
    rf"(?=[/\\])(?<![A-Za-z0-9_/]){_PATH}",
    f"~(?<![A-Za-z0-9_/].){_PATH}",
    f":(?<![A-Za-z0-9_:].)(?>(?:{_HEX}*+:)+)[A-Za-z0-9_-]*+",
)
_between_words = r"[^A-Za-z0-9_'\"`.+/\\~:-]++"
_plain_word = f"(?!(?=[FMSTWfmstw]){_A_DAY}|[A-Fa-f]{{8}}){_LETTER}++(?![0-9_+@-]|[.:][^{_SPACE}]| [0-9])"
"""A word in which nothing varies, and with which nothing that varies begins."""
_number = "[0-9](?<!-.)"
"""A place where something that varies certainly begins: tested first, to save trying all the others in vain."""
_kept = _any(_between_words, _plain_word, f"(?!{_number})(?!{_varying})(?:{_WORD}++|[^A-Za-z0-9_])")
_END = "\n0"
"""Certainly varies, and continues nothing, so that even the text at the end precedes something that varies."""

_row_of_gone = re.compile(rf"{GONE}(?>(?:[.,:;/+*%=T_-]{{0,3}}+ ?{GONE})+)")


_one_digit = bytes.maketrans(b"123456789", b"000000000")
"""No pattern depends on which digit it is. Bytes are the fastest way, and no byte of another character is a digit."""


def normal_form(message: str) -> str:
    """Return a message without numbers, ids, hexadecimal, quoted texts, paths, addresses and times."""
    return _normal_form(message[:LONGEST_MESSAGE].encode(errors="surrogatepass").translate(_one_digit))


@cache
def _before_what_varies() -> re.Pattern[str]:
    """Return the pattern for the text before each varying part. It is slow to compile, and only failures need it."""
    return re.compile(f"((?>{_kept}*)){_varying}")


@lru_cache(maxsize=1024)  # jobs that die in large numbers mostly have the same message, except for the digits
def _normal_form(message: bytes) -> str:
    bare = GONE.join(_before_what_varies().findall(message.decode(errors="surrogatepass") + _END))
    return _row_of_gone.sub(GONE, _single_spaced(bare).strip())[:LONGEST_NORMAL_FORM]


def _single_spaced(text: str) -> str:
    """Replace each run of ASCII spaces, the only separators of bytes, by one space."""
    return b" ".join(text.encode(errors="surrogatepass").split()).decode(errors="surrogatepass")


def fingerprint(queue: str, handler: str, failure: Failure) -> str:
    """Return the name of a cause: version, dash, 16 hexadecimal digits.

    A job that spent its attempts is named by how the last of them failed. Secrets in its message are removed first:
    otherwise a person who may not read them could try out words until the fingerprint fits.
    """
    code = failure.cause or failure.reason_code
    message = failure.message[:LONGEST_MESSAGE]
    if may_hold_secret(message):
        message = redacted_text(message, longest=LONGEST_MESSAGE)
    return _name(queue, handler, code, failure.error_kind or "", normal_form(message))


@lru_cache(maxsize=1024)
def _name(*parts: str) -> str:
    counted = "".join(f"{len(part)}:{part}" for part in parts)  # with lengths, to keep the parts apart
    return f"{VERSION}-{hashlib.sha256(counted.encode(errors='replace')).hexdigest()[:16]}"
