"""Secrets taken out of what is kept in the audit or shown to somebody.

A value is hidden by its key's name (`password`, `api_key`, `Authorization`), or by its shape (bearer and JSON web
tokens, keys of well-known makers, private keys, passwords in URLs, long random text). `{"$secret": name}` stays: it
names a secret and is none. Hashes stay where their key says so (`payload_sha256`) or they do (`sha256:…`).
E-mail addresses stay unless asked for: who asked for a replay is often one.
Every pattern looks at a bounded stretch or consumes what it looks at, so that any text costs linear time.
"""

from __future__ import annotations

import itertools
import re
from datetime import datetime
from typing import Any

HIDDEN = "***"
CUT = "…"
REFERENCE = "$secret"

LONGEST_TEXT = 4096
"""How many characters of one text are kept."""
MARGIN = 256
"""So much more is read and not kept: a secret that the cut falls into could not be recognised by its beginning."""
DEEPEST = 16
MOST_VALUES = 2000
"""How many values of one document are kept."""

_SECRET_WORDS = frozenset(
    {
        *("password", "passwd", "passphrase", "pwd", "pin", "secret", "secrets", "token", "authorization", "auth"),
        *("cookie", "cookies", "credential", "credentials", "apikey", "privatekey", "accesskey", "signature", "otp"),
    }
)
_SECRET_PAIRS = frozenset(
    {("api", "key"), ("access", "key"), ("private", "key"), ("signing", "key"), ("session", "key")}
)
_SECRET_ENDINGS = ("password", "passwd", "passphrase", "secret", "token", "apikey", "credentials")
"""How a word ends that was written together: `dbpassword`, `accesstoken`."""
_HARMLESS_ENDINGS = frozenset(
    {"count", "limit", "type", "name", "length", "size", "expiry", "expires", "at", "in", "url", "sha", "hash"}
)
"""What a key is about after all: `token_count`, `secret_name`, `token_expires_at`."""
_HASHES = frozenset({"sha", "hash", "fingerprint", "snapshot", "digest", "head", "id"})
"""Last words of keys whose values are long and random, and no secret."""

_word = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")  # without digits: `password2` is a password too
_LONGEST_KEY = 200

_NAMES = (
    r"pass(?:word|wd|phrase)|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|signing[_-]?key|credentials?"
)
_PEM = r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)"
_VALUE = rf"""(?:{_PEM}|\"[^\"\r\n]*\"?|'[^'\r\n]*'?|[^\s&,;\"'}}]+)"""
_MAKERS = (
    r"(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)",
    r"gh[pousr]_\w{20,}",
    r"github_pat_\w{20,}",
    r"glpat-[\w-]{16,}",
    r"xox[abeprs]-[\w-]{10,}",
    r"[srp]k_(?:live|test)_\w{10,}",
    r"sk-[\w-]{20,}",
    r"AIza[\w-]{30,}",
)
_shapes = re.compile(
    "|".join(
        (
            rf"(?P<pem>{_PEM})",
            r"(?P<line>(?i:(?<![\w-])(?:proxy-)?authorization|(?<![\w-])(?:set-)?cookie)[\"']?\s{0,3}[:=])[^\r\n]*",
            r"(?P<scheme>(?i:(?<!\w)(?:bearer|basic)) )[\w.~+/=-]{8,}",
            r"(?P<user>://[^\s:/@]{0,100}:)[^\s/@]{1,200}(?=@)",
            rf"(?P<named>(?i:(?<![\w-])[\w-]*(?:{_NAMES})\d{{0,3}})[\"']?\s{{0,3}}[=:]\s{{0,3}}){_VALUE}",
            r"(?P<jwt>(?<![\w-])eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?)",
            rf"(?P<maker>(?<![\w-])(?:{'|'.join(_MAKERS)}))",
            r"(?P<hash>sha256:[0-9a-f]{64}(?![0-9a-zA-Z]))",
            r"(?P<random>(?<![\w+/-])[\w+/-]{32,}={0,2})",
        )
    ),
    re.DOTALL | re.ASCII,
)
_email = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}", re.ASCII)
_hexadecimal = re.compile(r"[0-9a-fA-F]{32,}")
_LONG_RANDOM = 40
_SEPARATOR_EVERY = 10
"""Random text has few of `/_-`; a path or a name made of words has one every few characters."""


def redacted_text(text: str, *, emails: bool = False, longest: int = LONGEST_TEXT) -> str:
    """Give a text without the secrets in it, cut to a length that can be shown."""
    shown = _shapes.sub(_hide, text[: longest + MARGIN])
    shown = _email.sub(HIDDEN, shown) if emails else shown
    return shown if len(text) <= longest else f"{shown[:-MARGIN]}{CUT}"


def redacted(value: Any, *, emails: bool = False, longest: int = LONGEST_TEXT) -> Any:
    """Give a JSON value without the secrets in it, cut where it is deep or large; no text longer than `longest`."""
    return _Walk(emails, longest).walk(value, "", DEEPEST)


class _Walk:
    """One way through a document, which counts what it has met."""

    def __init__(self, emails: bool, longest: int) -> None:  # noqa: FBT001 - said by name at the door
        self._emails = emails
        self._longest = longest
        self._left = MOST_VALUES

    def walk(self, value: Any, key: str, depth: int) -> Any:
        """Give a value that stands under a key; lists pass their key on."""
        self._left -= 1
        if depth == 0 or self._left < 0:
            return CUT
        if isinstance(value, dict):
            return self._dict(value, key, depth - 1)
        if isinstance(value, list | tuple):
            return self._list(value, key, depth - 1)
        return self._scalar(value, key)

    def _dict(self, value: dict[Any, Any], key: str, depth: int) -> dict[str, Any]:
        if is_reference(value):
            return dict(value)
        shown: dict[str, Any] = {}
        for name, each in value.items():
            if self._left <= 0:
                shown[CUT] = CUT
                break
            below = key if is_secret_name(key) else str(name)
            shown[redacted_text(str(name)[:_LONGEST_KEY])] = self.walk(each, below, depth)
        return shown

    def _list(self, value: list[Any] | tuple[Any, ...], key: str, depth: int) -> list[Any]:
        kept = value[: max(self._left, 0)]
        shown = [self.walk(each, key, depth) for each in kept]
        return shown if len(kept) == len(value) else [*shown, CUT]

    def _scalar(self, value: Any, key: str) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if is_secret_name(key):
            return HIDDEN
        if isinstance(value, int | float | datetime):
            return value
        if not isinstance(value, str):
            return f"<{type(value).__name__}>"
        return value if _is_hash(key, value) else redacted_text(value, emails=self._emails, longest=self._longest)


def is_reference(value: dict[Any, Any]) -> bool:
    """Tell whether this names a secret instead of being one."""
    return len(value) == 1 and isinstance(value.get(REFERENCE), str)


def is_secret_name(key: str) -> bool:
    """Tell whether a key's name says that its value is nobody's to read."""
    words = _words(key)
    if not words or words[-1] in _HARMLESS_ENDINGS:
        return False
    if not _SECRET_WORDS.isdisjoint(words) or not _SECRET_PAIRS.isdisjoint(itertools.pairwise(words)):
        return True
    return any(word.endswith(_SECRET_ENDINGS) for word in words)


def _is_hash(key: str, value: str) -> bool:
    return not _HASHES.isdisjoint(_words(key)[-1:]) and _hexadecimal.fullmatch(value[:129]) is not None


def _words(key: str) -> list[str]:
    """Give the words of a name; of a long one those at both ends, because either may tell."""
    looked_at = key if len(key) <= _LONGEST_KEY else f"{key[:_LONGEST_KEY]} {key[-_LONGEST_KEY:]}"
    return [word.lower() for word in _word.findall(looked_at)]


def _hide(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    if kind == "hash" or (kind == "random" and not _is_random(match[0])):
        return match[0]
    beginning = match[kind] if kind in {"line", "scheme", "user", "named"} else ""
    return f"{beginning} {HIDDEN}" if kind == "line" else f"{beginning}{HIDDEN}"


def _is_random(text: str) -> bool:
    """Tell random text from names and paths: hexadecimal, or long, of mixed characters, with few separators."""
    if _hexadecimal.fullmatch(text):
        return True
    separators = sum(text.count(each) for each in "/_-")
    mixed = any(map(str.islower, text)) and any(map(str.isupper, text)) and any(map(str.isdigit, text))
    return len(text) >= _LONG_RANDOM and mixed and separators * _SEPARATOR_EVERY <= len(text)
