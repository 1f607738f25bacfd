"""The policy: read from a file or from code, put in force for every process, and asked before every replay."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import stat
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from standfast.concurrency.threads import run_in_thread, with_timeout
from standfast.errors import ConfigurationError
from standfast.redact import redacted
from standfast.settings import Setting
from standfast.spine.accept import user
from standfast.store.store import Store
from standfast.wings.policy import scripts as policies
from standfast.wings.policy.document import LARGEST
from standfast.wings.policy.facts import Facts
from standfast.wings.policy.known_policy import KnownPolicy
from standfast.wings.policy.load import load_policy, read_policy
from standfast.wings.policy.permit import Permission, ask_outside, permit, read_answer, strictest
from standfast.wings.policy.policy_in_force import stored
from standfast.wings.policy.rules import Broken, Policy
from standfast.wings.policy.rulings import Ruling, facts_at
from standfast.wings.policy.scripts import PolicyOffer, StoredPolicy
from standfast.wings.policy.what_if import what_if
from standfast.wings.queues.declarations import Declarations
from standfast.wings.records import reads
from standfast.wings.records.reads import SoughtLetters
from standfast.wings.records.view import job_view, moments

log = logging.getLogger("standfast.policy")

Letters = Iterable[tuple[str, Facts]]
"""Letters by their ids, as the policy sees them."""
External = Callable[[Facts], Any]
"""The application's own decision about a replay; it may be async."""
LONGEST_ANSWER = 30.0
"""Seconds an external decision may take; no answer in time is a refusal."""
PAGE = 500
IN_CODE = "code"
"""The source of a policy that the application gave as text."""


class PolicySource(NamedTuple):
    """A policy as it was written."""

    source: str
    text: str
    read: Policy | Broken


class PendingPolicy:
    """An accepted policy; `await` it to put it in force now rather than at the next use of the store."""

    def __init__(self, snapshot: str, publish: Callable[[], Awaitable[None]]) -> None:
        self.snapshot = snapshot
        self._publish = publish

    def __await__(self) -> Generator[Any, None, str]:
        """Put the policy in force; return its snapshot."""
        yield from self._publish().__await__()
        return self.snapshot


class Policies:
    """What becomes of letters and who may replay them: `load`, `use`, `snapshot`, `check`, `show`."""

    def __init__(self, store: Store, declared: Declarations, file: Setting) -> None:
        self._store = store
        self.known = KnownPolicy()
        self._declared = declared
        declared.add_publisher(self.put_in_force, self.learn)
        self._file: Path | None = Path(file.value)
        self._expected = file.source != "default"
        self._seen: tuple[int, ...] | None = None
        self._written: PolicySource | None = None
        self._external: External | None = None

    # --- for people

    @property
    def snapshot(self) -> str:
        """The hash of the policy in force, as this process last knew it."""
        return self.known.policy.snapshot

    def load(self, given: str | Path) -> PendingPolicy:
        """Put a policy in force, from a file (which is watched from now on) or from text; raises PolicyRefused.

        It takes effect at the next use of the store; `await` the returned object to put it in force at once.
        """
        if isinstance(given, str) and "\n" in given:
            written = PolicySource(IN_CODE, given, load_policy(given, IN_CODE))
            self._file, self._seen = None, None
        else:
            path = Path(given)
            seen, found = _signature(path), content(path)
            written = PolicySource(str(path), found.decode(errors="replace"), load_policy(found, str(path)))
            self._file, self._expected, self._seen = path, True, seen
        self._written = written
        self._declared.changed()
        return PendingPolicy(written.read.snapshot, self._declared.publish)

    def use(self, decide: External | None) -> None:
        """Ask your own code before every replay in this process, after the rules: the strictest answer wins.

        It gets the facts of the letter, and answers "allow", "deny" or "require_approval", or a dict with `decision`,
        `why` and `approver_group`. An exception or any other answer denies.
        """
        if decide is not None and not callable(decide):
            raise ConfigurationError(f"policy.use takes a function of a letter's facts, not {decide!r}")
        self._external = decide

    def keep_out(self) -> None:
        """Put no policy file in force from this process: for processes that only read, or try a policy."""
        self._file, self._expected = None, False

    async def check(
        self,
        text: str | bytes,
        source: str = "candidate",
        *,
        without_secrets: bool = False,
        longest: float | None = None,
    ) -> dict[str, Any]:
        """Return what a candidate would change: compare the decisions on every stored letter with the policy in force.

        `without_secrets` is for callers who may not see secrets: rules then see the labels redacted, so that no rule
        can be used to guess them. Rules times letters may be many: they are compared in a thread, for at most `longest`
        seconds.
        """
        candidate = await run_in_thread(load_policy, text, source)
        await self._declared.publish()
        await self.refresh()
        letters: Letters = [each async for each in self._letters()]
        seen = ((id_, _redacted(facts)) for id_, facts in letters) if without_secrets else letters
        found = await run_in_thread(what_if, _in_time(seen, longest), self.known.policy, candidate)
        return {
            "snapshot": candidate.snapshot,
            "in_force": self.snapshot,
            **msgspec.json.decode(msgspec.json.encode(found)),
        }

    async def show(self) -> dict[str, Any]:
        """Return the policy in force with its text, who published it and when, and what is wrong, if anything."""
        await self._declared.publish()
        stored: StoredPolicy = await self._store.read(policies.stored_policy())
        self.known.learn(stored)
        moment = moments(self._store.skew())
        return {
            "snapshot": self.snapshot,
            "source": stored.source,
            "text": stored.text,
            "by": stored.published_by,
            "at": moment(stored.published_at),
            "issue": self.known.issue,
            "external": self._external is not None,
        }

    async def _letters(self) -> Any:
        wanted = SoughtLetters(limit=PAGE)
        modes = await self._store.read(policies.replay_modes())
        while page := await self._store.read(reads.letters(wanted)):
            for record in page:
                now, skew = self._store.now(), self._store.skew()
                letter = job_view(record, now=now, skew=skew)
                mode = modes.get((record.row.queue, record.row.handler), "replay")
                yield record.row.id, facts_at(letter, now + skew, mode)
            wanted = wanted._replace(before=page[-1].row.n)

    # --- for replays

    async def permit(self, facts: Facts) -> Ruling:
        """Ask whether a letter may be replayed: the policy in force now, then the application's own code."""
        [ruling] = await self.permit_many([facts])
        return ruling

    async def permit_many(self, many: Sequence[Facts]) -> list[Ruling]:
        """Ask the same about many letters; a policy published meanwhile counts only from the next call."""
        await self.refresh()
        policy = self.known.policy
        return [Ruling(await self._permitted(facts, policy), policy.snapshot, stored=True) for facts in many]

    async def _permitted(self, facts: Facts, policy: Policy | Broken) -> Permission:
        permission, external = permit(facts, policy), self._external
        if external is None or permission.decision == "deny":
            return permission
        return strictest(permission, await _ask(external, facts))

    async def refresh(self) -> None:
        """Learn another policy, if there is one."""
        self.known.learn(await self._store.read(policies.unless_known(self.known.mark)))

    # --- for the opening of the store, and for workers

    def put_in_force(self) -> None:
        """Put in force the policy that this process has, if any; learn which one is in force."""
        if self._written is None and self._file is not None:
            self._look(self._file)
        if self._written is None:
            self.learn()
        else:
            self._offer(self._written)

    def learn(self) -> None:
        """Learn which policy is in force."""
        self.known.learn(self._store.read(policies.stored_policy()).result())

    async def reload(self) -> None:
        """Put the file's policy in force if the file has changed or was not read; learn what others published."""
        if self._file is not None and (self._is_unread() or _signature(self._file) != self._seen):
            await run_in_thread(self._reload, self._file)
        await self.refresh()

    def _reload(self, file: Path) -> None:
        before = self._written
        self._look(file)
        if self._written is not None and self._written != before:
            self._offer(self._written)

    def _is_unread(self) -> bool:
        """Return whether the file could not be read for want of the extra, which may be installed by now."""
        return self._written is not None and isinstance(self._written.read, Broken) and self._written.read.unread

    def _look(self, file: Path) -> None:
        """Read the file; a missing one means no policy, unless it was named explicitly."""
        self._seen = _signature(file)
        if self._seen is None and not self._expected:
            return
        self._expected = True
        try:
            found = None if self._seen is None else content(file)
        except ConfigurationError as error:
            self._written = PolicySource(str(file), "", Broken(str(error)))
        else:
            self._written = PolicySource(
                str(file), (found or b"").decode(errors="replace"), read_policy(found, str(file))
            )

    def _offer(self, written: PolicySource) -> None:
        about = {"by": user(), "source": written.source}
        if isinstance(written.read, Broken):
            log.error("policy: %s", written.read.problem)
            offer = PolicyOffer(problem=written.read.problem, **about)
        else:
            policy = written.read
            offer = PolicyOffer(snapshot=policy.snapshot, text=written.text, rules=stored(policy), **about)
        self.known.learn(self._store.write(policies.publish, offer).result())

    def declares(self) -> str | None:
        """Return the snapshot of this process's policy, for other processes to compare; None if it has none."""
        return None if self._written is None else self._written.read.snapshot

    def take_over(self, other: Policies) -> None:
        """Take the policy of another instance: for tests that move an application to another store."""
        self._written, self._external = other._written, other._external
        self._file, self._expected, self._seen = other._file, other._expected, other._seen


def _signature(path: Path) -> tuple[int, ...] | None:
    """Return values that change when a file does; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def content(path: Path) -> bytes:
    """Read a policy file; anything but a regular file is refused before it is read."""
    try:
        with open(path, "rb", opener=_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigurationError(f"{path} is not a regular file, so it cannot be a policy")
            found = file.read(LARGEST + 1)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    if len(found) > LARGEST:
        raise ConfigurationError(f"{path} has more than the {LARGEST} bytes that a policy may have")
    return found


def _at_once(path: str, flags: int) -> int:
    """Open without waiting for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


async def _ask(external: External, facts: Facts) -> Permission:
    """Ask the application's own code in a thread, or on the loop if it is async; any error is a refusal."""
    asks_here = inspect.iscoroutinefunction(external) or inspect.iscoroutinefunction(type(external).__call__)
    question = _awaited(external, facts) if asks_here else run_in_thread(partial(ask_outside, partial(external, facts)))
    answers = [*await asyncio.gather(with_timeout(question, LONGEST_ANSWER), return_exceptions=True)]
    if isinstance(answers[0], BaseException):
        return ask_outside(partial(_raise, answers[0]))
    return read_answer(answers[0])


async def _awaited(external: External, facts: Facts) -> Any:
    return await external(facts)


def _raise(error: BaseException) -> Any:
    raise error


def _in_time(letters: Letters, longest: float | None) -> Iterator[tuple[str, Facts]]:
    """Yield letters one by one, and raise when the time is up."""
    until = None if longest is None else time.monotonic() + longest
    for each in letters:
        if until is not None and time.monotonic() >= until:
            raise ConfigurationError(
                f"the policy was not compared with every letter within {longest:g} s, and nothing was changed: give it "
                "fewer rules, or try it on the host with `standfast policy check`"
            )
        yield each


def _redacted(facts: Facts) -> Facts:
    """Return the facts of a letter as they are shown to callers who may not see secrets."""
    return msgspec.structs.replace(facts, labels=redacted(facts.labels))
