"""Which letters died of the same cause: what tells one failure's words from another's is taken out, the rest is hashed.

A fingerprint is stored with its letter and compared with those of years ago, so these patterns never change: a change
is a new VERSION. They are ASCII, because what counts as a letter or a digit beyond it depends on Python's version.
Each looks back at most one character and ahead only over what it takes, so that any message costs linear time.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from standfast.failure import Failure

VERSION = "1"
LONGEST_MESSAGE = 8192
"""How much of a message is looked at."""
LONGEST_NORMAL_FORM = 1024
"""How much of it counts once everything that varies is gone."""
GONE = "#"

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DAY = r"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*"

_WITHIN_A_WORD = r"(?<=\w)\w"
"""Where none of the patterns can begin: said once, before all of them, so that none is tried there."""
_varying = re.compile(
    f"(?!{_WITHIN_A_WORD})(?:"
    + "|".join(
        (
            r"(?<!\w)'[^'\n]*'(?!\w)",  # quoted texts; an apostrophe stands inside a word
            r'"[^"\n]*"',
            r"`[^`\n]*`",
            r"(?<![\w+.-])[a-z][\w+.-]{0,30}+://[^\s'\"<>]++",  # addresses of the web
            r"(?<![\w.+-])[\w.+-]{1,64}+@[\w.-]++",  # and of people
            rf"(?<!\w)(?:{_DAY},? )?(?:\d+ {_MONTH}|{_MONTH} \d+)(?: \d+(?::\d+)*)*(?: ?(?:gmt|utc|[+-]\d+))?(?!\w)",
            r"(?<![\w/])(?:~|\.{1,2}|[a-z]:)?(?:[/\\][^\s/\\'\":,;()<>]+)+[/\\]?",  # paths
            r"(?<![\w:])(?:[0-9a-f]*:){2,}[\w-]*",  # IPv6, hardware addresses, times of day
            r"(?<![\w-])[a-f0-9]{8,}+(?:-[a-f0-9]++)*+(?![\w-])",  # hexadecimal, also if it has no digit
            r"(?<![\w-])[a-z_-]*+\d[\w-]*+",  # whatever has a digit: numbers, ids, uuids, dates, versions
        )
    )
    + ")",
    re.ASCII | re.IGNORECASE,
)
_row_of_gone = re.compile(rf"{GONE}(?:[.,:;/+*%=T_-]{{0,3}} ?{GONE})*")
_spaces = re.compile(r"[ \t\r\n\f\v]+")


@lru_cache(maxsize=256)  # what dies in numbers mostly dies of the same words
def normal_form(message: str) -> str:
    """Give a message without numbers, ids, hexadecimal, quoted texts, paths, addresses and times."""
    bare = _varying.sub(GONE, message[:LONGEST_MESSAGE])
    return _row_of_gone.sub(GONE, _spaces.sub(" ", bare).strip())[:LONGEST_NORMAL_FORM]


def fingerprint(queue: str, handler: str, failure: Failure) -> str:
    """Give the name of a cause: version, dash, 16 hexadecimal digits."""
    parts = (queue, handler, failure.reason_code, failure.error_kind or "", normal_form(failure.message))
    counted = "".join(f"{len(part)}:{part}" for part in parts)  # with lengths, so that no part runs into the next
    return f"{VERSION}-{hashlib.sha256(counted.encode(errors='replace')).hexdigest()[:16]}"
