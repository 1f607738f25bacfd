"""Remove secrets from what is audited or shown.

A value is hidden by its key's name (`password`, `api_key`, `Authorization`, and what `[redact] keys` adds), also where
the name stands beside it (`{"name": "password", "value": …}`, `["Authorization", …]`, `?token=…`, `pin=…&…`); or by its
shape (bearer and JSON web tokens, keys of well-known makers, private keys, user and password in a URL, long random
text). `{"$secret": name}` stays: it names a secret and is none. Hashes stay where their key says so (`payload_sha256`)
or they do (`sha256:…`); where payloads are not read as they are, hashes are keyed, lest short secrets be guessed.
E-mail addresses stay unless asked for: who asked for a replay is often one.
Every pattern looks at a bounded stretch or consumes what it looks at, so that any text costs linear time.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import re
import secrets
from collections.abc import Iterable
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

HIDDEN = "***"
CUT = "…"
PAIR = 2
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
        *("cookie", "cookies", "credential", "credentials", "apikey", "privatekey", "accesskey", "signature", "sig"),
        *("otp", "passwords", "passphrases", "passcode", "apikeys", "creds", "bearer", "jwt", "cvv", "cvc"),
    }
)
_SECRET_PAIRS = frozenset(
    (kind, key)
    for kind in ("api", "access", "private", "signing", "session", "encryption", "master", "ssh")
    for key in ("key", "keys")
)
_SECRET_LAST_WORDS = frozenset({"pass", "pw"})
"""Words that tell a secret at the end of a name only: `db_pass`, but not `pass_rate`."""
_SECRET_ENDINGS = ("password", "passwd", "passphrase", "secret", "token", "apikey", "credentials")
"""How a word ends that was written together: `dbpassword`, `accesstoken`."""
_HARMLESS_ENDINGS = frozenset(
    {"count", "limit", "type", "name", "length", "size", "expiry", "expires", "at", "in", "url", "sha", "hash"}
)
"""What a key is about after all: `token_count`, `secret_name`, `token_expires_at`."""
_HASHES = frozenset({"sha", "hash", "fingerprint", "snapshot", "digest", "head", "id"})
"""Last words of keys whose values are long and random, and no secret."""

_GUESSABLE = frozenset({"sha", "hash", "digest", "head"})
"""Last words of keys whose values are hashes of what may be short: of a payload, or of a decision that names one."""
_NAMING = frozenset({"name", "key", "header", "field", "param", "parameter", "attribute", "variable", "k"})
_VALUING = frozenset({"value", "values", "val", "content", "data", "default", "v"})
"""Keys of a map that names something under one of its keys and has its value under another."""

_word = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")  # without digits: `password2` is a password too
_part = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_LONGEST_KEY = 200

_NAMES = (
    r"pass(?:word|wd|phrase|code)s?|(?<=_)pass|pwd|secret|token|api[_-]?keys?|access[_-]?keys?|private[_-]?keys?"
    r"|(?:signing|encryption|master|ssh)[_-]?key|credentials?"
)
_PEM = r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)"
_QUOTE = r"(?:\\{0,7}[\"'])?"
"""A quote after a name. In JSON text that is itself a text of JSON, a quote has a backslash, then three, then seven."""
_QUOTED = "|".join(
    (
        *(rf"\\{{{n}}}\"(?:(?!(?<!\\)\\{{{n}}}\")[^\r\n])*(?:\\{{{n}}}\")?" for n in (7, 3, 1)),
        *(rf"{quote}(?:[^{quote}\\\r\n]|\\[^\r\n])*{quote}?" for quote in ('\\"', "'")),
    )
)
_VALUE = rf"""(?:{_PEM}|{_QUOTED}|[^\s&,;\"'}}]+)"""
_MAKERS = (
    r"(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)",
    r"gh[pousr]_\w{20,}",
    r"github_pat_\w{20,}",
    r"glpat-[\w-]{16,}",
    r"xox[abeprs]-[\w-]{10,}",
    r"[srp]k_(?:live|test)_\w{10,}",
    r"sk-[\w-]{20,}",
    r"AIza[\w-]{30,}",
    r"whsec_[\w+/-]{8,}={0,2}",
)


@cache
def _shapes() -> re.Pattern[str]:
    """Give what secrets look like. It takes long to compile, and a process that shows nothing needs it not at all."""
    return re.compile(
        "|".join(
            (
                rf"(?P<pem>{_PEM})",
                r"(?P<line>(?i:(?<![\w-])(?:proxy-)?authorization|(?<![\w-])(?:set-)?cookie)"
                + _QUOTE
                + r"\s{0,3}[:=])[^\r\n]*",
                r"(?P<scheme>(?i:(?<!\w)(?:bearer|basic)) )[\w.~+/=-]{8,}",
                r"(?P<user>://)[^\s/?#\"'<>]+(?=@)",
                rf"(?P<named>(?i:(?<![\w-])[\w-]*(?:{_NAMES})\d{{0,3}}){_QUOTE}\s{{0,3}}[=:]\s{{0,3}}){_VALUE}",
                rf"(?P<option>(?i:(?<![\w-])--[\w-]{{0,50}}(?:{_NAMES})) {{1,3}})(?!-){_VALUE}",
                r"(?P<jwt>(?<![\w-])eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?)",
                rf"(?P<maker>(?<![\w-])(?:{'|'.join(_MAKERS)}))",
                r"(?P<hash>sha256:[0-9a-f]{64}(?![0-9a-zA-Z]))",
                r"(?P<random>(?<![\w+/-])[\w+/-]{32,}={0,2})",
            )
        ),
        re.DOTALL | re.ASCII,
    )


_TELLING = (
    *("pass", "pwd", "secret", "token", "key", "credential", "auth", "cookie", "bearer", "basic", "sig", "pin", "otp"),
    *("jwt", "creds", "cvv", "cvc", "pw", "://"),
)
"""What is in every text with a secret that its name or its surroundings tell."""
_params = re.compile(r"((?:\A|(?<=[?&;]))([\w.\[\]%+~-]{1,100})=)[^&;\s\"'#<>]+", re.ASCII)
"""A name and its value, as forms and queries have them."""
_inner_params = re.compile(r"((?<=%26|%3[Ff])([\w.~+-]{1,100})%3[Dd])[\w.~+-]+", re.ASCII)
"""The same of a URL that is itself the value of one."""
_email = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}", re.ASCII)
_hexadecimal = re.compile(r"[0-9a-fA-F]{32,}")
_LONG_RANDOM = 40
_SEPARATOR_EVERY = 10
"""Random text has few of `/_-`; a path or a name made of words has one every few characters."""


class Redacted(NamedTuple):
    """A JSON value without the secrets in it."""

    value: Any
    cut: bool
    """Whether any of it was left out because it was too long, too deep or too much."""


class _Also(NamedTuple):
    """Names that hide their values beside the usual ones: as runs of words, as they are written, and in texts."""

    runs: frozenset[tuple[str, ...]] = frozenset()
    spelled: frozenset[str] = frozenset()
    named: re.Pattern[str] | None = None


_also = _Also()
_KEY, _KEY_NAME = secrets.token_bytes(32), secrets.token_hex(4)
"""What hashes are keyed with in this process, and what tells them from another process's."""


def hide_also(names: Iterable[str]) -> None:
    """Have values under these names hidden too, from now on, in everything this process shows."""
    global _also  # noqa: PLW0603 - one process hides what any of its queues wants hidden
    added = {_spelled(name) for name in names} - {""} - _also.spelled
    if added:
        spelled = _also.spelled | added
        words = ("[_ -]?".join(map(re.escape, name.split("_"))) for name in sorted(spelled))
        named = rf"((?i:(?<![\w-])(?:\w{{1,50}}[_-])?(?:{'|'.join(words)})){_QUOTE}\s{{0,3}}[=:]\s{{0,3}}){_VALUE}"
        runs = frozenset(tuple(name.split("_")) for name in spelled)
        _also = _Also(runs, spelled, re.compile(named, re.DOTALL))


def keyed(value: str) -> str:
    """Give a hash that tells the same values apart from others in this process, and that cannot be guessed."""
    return f"hmac-sha256:{_KEY_NAME}:{hmac.digest(_KEY, value.encode(errors='surrogatepass'), hashlib.sha256).hex()}"


def may_hold_secret(text: str) -> bool:
    """Tell quickly whether a text could have a secret of plain words; random text tells itself by digits."""
    lowered = text.lower()  # words are sought one by one: that is ten times as quick as a pattern of all of them
    return _also.named is not None or any(word in lowered for word in _TELLING)


def redacted_text(text: str, *, emails: bool = False, longest: int = LONGEST_TEXT) -> str:
    """Give a text without the secrets in it, cut to a length that can be shown."""
    shown = _params.sub(_hide_param, _inner_params.sub(_hide_param, text[: longest + MARGIN]))
    shown = shown if _also.named is None else _also.named.sub(rf"\1{HIDDEN}", shown)
    shown = _shapes().sub(_hide, shown)
    shown = _email.sub(HIDDEN, shown) if emails else shown
    return shown if len(text) <= longest else f"{shown[:-MARGIN]}{CUT}"


def redacted(
    value: Any,
    *,
    emails: bool = False,
    longest: int = LONGEST_TEXT,
    keyed_hashes: bool = False,
    without: frozenset[str] = frozenset(),
    most: int = MOST_VALUES,
    deepest: int = DEEPEST,
) -> Any:
    """Give a JSON value without the secrets in it, cut where it is deep or large; no text longer than `longest`.

    With `keyed_hashes`, hashes of payloads and decisions are shown keyed; what stands under a key of `without`, not at
    all.
    """
    return _redacted(value, deepest, _Walk(emails, longest, keyed_hashes, without, most)).value


def redacted_or_cut(value: Any, *, longest: int, without: frozenset[str] = frozenset()) -> Redacted:
    """Do the same with keyed hashes, and tell whether anything was cut."""
    return _redacted(value, DEEPEST, _Walk(False, longest, True, without, MOST_VALUES))  # noqa: FBT003 - as below


def _redacted(value: Any, deepest: int, walk: _Walk) -> Redacted:
    return Redacted(walk.walk(value, "", deepest), walk.cut)


class _Walk:
    """One way through a document, which counts what it has met."""

    def __init__(self, emails: bool, longest: int, keyed_hashes: bool, without: frozenset[str], most: int) -> None:  # noqa: FBT001 - said by name at the door
        self._emails = emails
        self._longest = longest
        self._keyed_hashes = keyed_hashes
        self._without = without
        self._left = most
        self.cut = False
        """Whether anything was left out so far."""

    def walk(self, value: Any, key: str, depth: int) -> Any:
        """Give a value that stands under a key; lists pass their key on."""
        self._left -= 1
        if depth == 0 or self._left < 0:
            return self._cut()
        if isinstance(value, dict):
            return self._dict(value, key, depth - 1)
        if isinstance(value, list | tuple):
            return self._list(value, key, depth - 1)
        return self._scalar(value, key)

    def _dict(self, value: dict[Any, Any], key: str, depth: int) -> dict[str, Any]:
        if is_reference(value):
            return dict(value)
        shown: dict[str, Any] = {}
        secret = key if is_secret_name(key) else _named_secret(value)
        for name, each in value.items():
            if self._left <= 0:
                shown[CUT] = self._cut()
                break
            if name in self._without and each is not None:
                shown[str(name)] = HIDDEN
                continue
            hides = secret is not None and (secret == key or str(name).lower() in _VALUING)
            below = secret if hides and secret is not None else str(name)
            self.cut = self.cut or len(str(name)) > _LONGEST_KEY
            shown[redacted_text(str(name)[:_LONGEST_KEY])] = self.walk(each, below, depth)
        return shown

    def _list(self, value: list[Any] | tuple[Any, ...], key: str, depth: int) -> list[Any]:
        kept = value[: max(self._left, 0)]
        pairs = zip(kept, ("", *kept), strict=False)
        shown = [self.walk(each, _key_beside(before, len(value)) or key, depth) for each, before in pairs]
        return shown if len(kept) == len(value) else [*shown, self._cut()]

    def _scalar(self, value: Any, key: str) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if is_secret_name(key):
            return HIDDEN
        if isinstance(value, int | float | datetime):
            return value
        if not isinstance(value, str):
            return f"<{type(value).__name__}>"
        if self._keyed_hashes and _is_guessable(key, value):
            return keyed(value)
        if _is_hash(key, value):
            return value
        self.cut = self.cut or len(value) > self._longest
        return redacted_text(value, emails=self._emails, longest=self._longest)

    def _cut(self) -> str:
        self.cut = True
        return CUT


def is_shown(name: str, value: str) -> bool:
    """Tell whether a text under a name is shown as it is to those who are shown no secrets."""
    return bool(redacted({name: value}) == {name: value})


def is_reference(value: dict[Any, Any]) -> bool:
    """Tell whether this names a secret instead of being one."""
    return len(value) == 1 and isinstance(value.get(REFERENCE), str)


def is_secret_name(key: str) -> bool:
    """Tell whether a key's name says that its value is secret."""
    words = _words(key)
    if _also.spelled and (_spelled(key) in _also.spelled or _has_run(words)):
        return True
    if not words or words[-1] in _HARMLESS_ENDINGS:
        return False
    if (
        words[-1] in _SECRET_LAST_WORDS
        or not _SECRET_WORDS.isdisjoint(words)
        or not _SECRET_PAIRS.isdisjoint(itertools.pairwise(words))
    ):
        return True
    return any(word.endswith(_SECRET_ENDINGS) for word in words)


def _named_secret(value: dict[Any, Any]) -> str | None:
    """Give the secret name that a map has under a key such as `name`, if any."""
    named = (each for name, each in value.items() if isinstance(each, str) and str(name).lower() in _NAMING)
    return next((each for each in named if len(each) <= _LONGEST_KEY and is_secret_name(each)), None)


def _key_beside(before: Any, length: int) -> str | None:
    """Give the secret name that stands before a value in a list: of a pair, or as an option of a command."""
    if not isinstance(before, str) or len(before) > _LONGEST_KEY or not (length == PAIR or before.startswith("-")):
        return None
    return before if "=" not in before and is_secret_name(before) else None


def _has_run(words: list[str]) -> bool:
    """Tell whether the words of a name hold those of one that was added."""
    spans = (range(len(words) - len(run) + 1) for run in _also.runs)
    runs = zip(_also.runs, spans, strict=True)
    return any(tuple(words[start : start + len(run)]) == run for run, starts in runs for start in starts)


def _spelled(name: str) -> str:
    """Give a name in one spelling: `dateOfBirth`, `Date-of-Birth` and `date_of_birth` are one."""
    return "_".join(part.lower() for part in _part.findall(name[:_LONGEST_KEY]))


def _hide_param(match: re.Match[str]) -> str:
    return f"{match[1]}{HIDDEN}" if is_secret_name(unquote_plus(match[2])) else match[0]


def _is_hash(key: str, value: str) -> bool:
    return not _HASHES.isdisjoint(_words(key)[-1:]) and _hexadecimal.fullmatch(value[:129]) is not None


def _is_guessable(key: str, value: str) -> bool:
    return not _GUESSABLE.isdisjoint(_words(key)[-1:]) and _hexadecimal.fullmatch(value[:129]) is not None


def _words(key: str) -> list[str]:
    """Give the words of a name; of a long one those at both ends, because either may tell."""
    looked_at = key if len(key) <= _LONGEST_KEY else f"{key[:_LONGEST_KEY]} {key[-_LONGEST_KEY:]}"
    return [word.lower() for word in _word.findall(looked_at)]


def _hide(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    if kind == "hash" or (kind == "random" and not _is_random(match[0])):
        return match[0]
    beginning = match[kind] if kind in {"line", "scheme", "user", "named", "option"} else ""
    return f"{beginning} {HIDDEN}" if kind == "line" else f"{beginning}{HIDDEN}"


def _is_random(text: str) -> bool:
    """Tell random text from names and paths: hexadecimal, or long, of mixed characters, with few separators."""
    if _hexadecimal.fullmatch(text):
        return True
    separators = sum(text.count(each) for each in "/_-")
    mixed = any(map(str.islower, text)) and any(map(str.isupper, text)) and any(map(str.isdigit, text))
    return len(text) >= _LONG_RANDOM and mixed and separators * _SEPARATOR_EVERY <= len(text)
