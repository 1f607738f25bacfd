"""Effects: what a handler changes in the world, and how to check whether it did.

A check reads the world directly, never through the service that may just have failed. Its answer is judged
elsewhere; an error, a timeout or a meaningless answer says nothing.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import msgspec

from standfast.concurrency.user_code import call_user_code
from standfast.errors import ConfigurationError
from standfast.failure import Verdict
from standfast.wings.effects.templates import CannotTell, checked, filled
from standfast.wings.http.words import HttpRequest, Reply

if TYPE_CHECKING:
    from standfast.wings.effects.handler_job import Job
    from standfast.wings.http.sender import Sender

TIMEOUT = 10.0
"""Seconds a look may take, unless the effect says otherwise."""
MODES = ("substring", "sha256", "absent")
GONE = frozenset({404, 410})
"""The statuses by which a receiver says that a thing does not exist."""
CHUNK = 1 << 20

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
Given = str | Callable[["Job"], Any]
"""A template, or a callable of the job."""


class EffectToVerify(msgspec.Struct, frozen=True):
    """What is known of an effect when its check looks for it: the second parameter of `verify`."""

    name: str
    key: str
    """What the handler gave the receiver as `e.key`: the same on every attempt and replay."""
    begun: bool = False
    """Whether an attempt started it, and its outcome is unknown."""
    receipt: Any = None
    """The receipt of an earlier attempt, if a later one could not find the effect; otherwise None."""
    asked: bool = False
    """Whether a person has let the job run again since: then the effect may be done again."""


class NoUsableReply(CannotTell):
    """A reply that does not tell whether the effect exists; its status says whether asking again can help."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"HTTP {reply.status} does not tell whether it is there")
        self.status_code = reply.status
        self.headers = {name.title(): value for name, value in reply.headers.items()}


class Effect:
    """One side effect of a handler. `verify(job, effect)` or `verify(job)` checks whether it exists.

    It answers True, False, `Found(receipt)`, or a verdict (`verified`, `absent`, `partial`, `indeterminate`). An async
    `verify` is awaited, a plain one runs in a thread. Annotate its parameters as `job: Job[T]` and
    `effect: EffectToVerify`; `effect.key` is what the handler gave the receiver as `e.key`.
    Without `verify`, only the ledger knows about this effect.
    """

    def __init__(self, name: str, verify: Callable[..., Any] | None = None, *, timeout: float = TIMEOUT) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigurationError(f"an effect is named by letters, digits, '_', '.' and '-', not {name!r}")
        if not isinstance(timeout, int | float) or not timeout > 0:
            raise ConfigurationError(f"effect {name}: timeout must be more than 0 seconds, not {timeout!r}")
        self.name = name
        self.timeout = float(timeout)
        self._verify = None if verify is None else _taking_both(name, verify)

    @property
    def verifiable(self) -> bool:
        """Whether there is a way to look for the effect."""
        return self._verify is not None

    async def look(self, job: Job, effect: EffectToVerify, sender: Sender) -> Any:
        """Look for the effect in the world; return the check's answer."""
        del sender
        assert self._verify is not None  # noqa: S101 - called only if it is verifiable
        return await call_user_code(self._verify, job, effect)


class FileEffect(Effect):
    """A file that a handler writes or deletes. `path` and `witness` are templates, or callables of the job.

    `mode` says what to find: `"substring"` the witness in the file, `"sha256"` a file with this hash,
    `"absent"` no file.
    """

    def __init__(
        self,
        name: str,
        path: Given | Path,
        witness: Given | None = None,
        mode: Literal["substring", "sha256", "absent"] = "substring",
        *,
        timeout: float = TIMEOUT,
    ) -> None:
        super().__init__(name, timeout=timeout)
        if mode not in MODES:
            raise ConfigurationError.unknown(f"mode of effect {name}", mode, MODES)
        if (witness is None) != (mode == "absent"):
            needs = "takes no witness" if mode == "absent" else "needs a witness to look for"
            raise ConfigurationError(f"effect {name}: mode {mode!r} {needs}")
        self._path = checked("path", str(path) if isinstance(path, Path) else path)
        self._witness = checked("witness", witness)
        self._mode = mode

    @property
    def verifiable(self) -> bool:
        """Always."""
        return True

    async def look(self, job: Job, effect: EffectToVerify, sender: Sender) -> Any:
        """Read the file."""
        del sender
        return await call_user_code(self._read, job, effect)

    def _read(self, job: Job, effect: EffectToVerify) -> bool:
        path = Path(filled(self._path, job, effect.key))
        if self._mode == "absent":
            return not path.exists()
        witness = str(filled(self._witness, job, effect.key))
        if not witness:
            raise CannotTell("the text to look for is empty, which every file contains")
        try:
            with path.open("rb") as file:
                return _holds(file, witness.encode()) if self._mode == "substring" else _hash(file) == witness.lower()
        except (FileNotFoundError, NotADirectoryError):
            return False


class HttpEffect(Effect):
    """An effect that a GET request can find. `url` is a template (values are percent-encoded) or a callable of the job.

    The effect is verified if the reply has the expected `status` (any 2xx by default), contains `text`, and its JSON
    has everything that `json` has. It is absent if the reply has the status but not that content, has another 2xx
    status, or is 404 or 410. Any other status says nothing about the effect. `headers` may be a callable of the job.
    The queue's `destinations` apply here too.
    """

    def __init__(
        self,
        name: str,
        url: Given,
        *,
        status: int | Collection[int] | None = None,
        text: Given | None = None,
        json: Any = None,
        headers: Mapping[str, str] | Callable[[Job], Mapping[str, str]] | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        super().__init__(name, timeout=timeout)
        self._url = checked("url", url)
        self._status = range(200, 300) if status is None else {status} if isinstance(status, int) else frozenset(status)
        self._text = checked("text", text)
        self._json = json
        self._headers = headers

    @property
    def verifiable(self) -> bool:
        """Always."""
        return True

    async def look(self, job: Job, effect: EffectToVerify, sender: Sender) -> Any:
        """Send the GET."""
        url = filled(self._url, job, effect.key, partial(quote, safe=""))
        given = self._headers(job) if callable(self._headers) else self._headers or {}
        request = HttpRequest("GET", str(url), dict(given), timeout=self.timeout)
        return self._judge(await sender.look(job, request), job, effect)

    def _judge(self, reply: Reply, job: Job, effect: EffectToVerify) -> Verdict:
        if reply.status in self._status:
            return self._witnessed(reply, job, effect)
        if reply.status in GONE or not reply.refuses:
            return Verdict.ABSENT
        raise NoUsableReply(reply)

    def _witnessed(self, reply: Reply, job: Job, effect: EffectToVerify) -> Verdict:
        fill = partial(filled, job=job, key=effect.key)
        text = None if self._text is None else str(fill(self._text))
        if text == "":
            raise CannotTell("the text to look for is empty, which every reply contains")
        found = text is None or text in reply.text
        if found and self._json is not None:
            wanted = fill(self._json) if callable(self._json) else _filled_inside(self._json, fill)
            found = not reply.truncated and _covers(msgspec.json.decode(reply.body), wanted)
        if not found and reply.truncated:
            raise CannotTell("the reply is too long to be read whole")
        return Verdict.VERIFIED if found else Verdict.ABSENT


def _taking_both(name: str, verify: Callable[..., Any]) -> Callable[..., Any]:
    """Return a check that is called with job and effect, even if it takes only the job."""
    if not callable(verify):
        raise ConfigurationError(f"effect {name}: verify must be a function, not {verify!r}")
    try:
        signature = inspect.signature(verify)
    except (TypeError, ValueError):  # written in C, without a signature
        return verify
    for arguments in ((None,), (None, None)) if _keeps_second(signature) else ((None, None), (None,)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return verify if len(arguments) > 1 else _Alone(verify)
    raise ConfigurationError(f"effect {name}: verify is called with (job, effect) or (job); {signature} takes neither")


def _keeps_second(signature: inspect.Signature) -> bool:
    """Return whether the second parameter is the author's (`lambda job, path=path: …`), and not for the effect."""
    second = next(islice(signature.parameters.values(), 1, None), None)
    return second is not None and second.default is not second.empty and second.name != "effect"


class _Alone:
    """A check that takes only the job."""

    def __init__(self, verify: Callable[..., Any]) -> None:
        self._verify = verify
        self.__wrapped__ = verify

    def __call__(self, job: Job, _effect: EffectToVerify) -> Any:
        return self._verify(job)


def _holds(file: BufferedReader, witness: bytes) -> bool:
    """Return whether a file contains these bytes, even across two chunks."""
    kept = b""
    while chunk := file.read(CHUNK):
        kept += chunk
        if witness in kept:
            return True
        kept = kept[-len(witness) :]
    return False


def _hash(file: BufferedReader) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


def _filled_inside(wanted: Any, fill: Callable[[str], Any]) -> Any:
    if isinstance(wanted, dict):
        return {name: _filled_inside(value, fill) for name, value in wanted.items()}
    if isinstance(wanted, list):
        return [_filled_inside(value, fill) for value in wanted]
    return fill(wanted) if isinstance(wanted, str) else wanted


def _covers(found: Any, wanted: Any) -> bool:
    """Return whether a JSON value has all that is wanted; a list must cover each wanted item with one of its items."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            name in found and _covers(found[name], value) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and all(any(_covers(each, value) for each in found) for value in wanted)
    if isinstance(wanted, str) and isinstance(found, int | float):  # a template is text, and the receiver has a number
        return str(found) == wanted
    return bool(found == wanted) and isinstance(found, bool) == isinstance(wanted, bool)
