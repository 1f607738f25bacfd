"""What people do to letters besides replaying them: discard, quarantine, amend, purge. Each records who and why."""

from __future__ import annotations

from typing import Any

import msgspec

from standfast.errors import ConfigurationError, NotALetter, PayloadRejected, UnknownJob
from standfast.job import HTTP, Details, NewJob
from standfast.lifecycle import LETTERS, State
from standfast.rules import OURS
from standfast.spine.apply import apply
from standfast.spine.ids import id_of
from standfast.spine.payload import canonical, fingerprint, sha256
from standfast.spine.registry import Handler, Registry
from standfast.store.store import Store
from standfast.typed.letter_options import LetterFilter
from standfast.views import Heard, JobView, Progress
from standfast.wings.approvals.people import checked_actor, person
from standfast.wings.audit.words import Decision
from standfast.wings.http import verbs as http
from standfast.wings.http.words import HttpRequest, origin_of
from standfast.wings.letters import scripts as letters
from standfast.wings.letters.amend import changes, next_key
from standfast.wings.letters.open_effects import check_effects_are_settled
from standfast.wings.letters.scripts import Amendment, LetterDecision, Purge, Quarantine
from standfast.wings.queues import scripts as queue_scripts
from standfast.wings.records import reads
from standfast.wings.records.figures import number
from standfast.wings.records.letter_filter import check_countable, letter_filter
from standfast.wings.records.reads import JobRecord, JobRow
from standfast.wings.records.view import HIDDEN, job_view
from standfast.wings.replays.returning import standing
from standfast.wings.replays.rules import Refusal, discard

BITE = 1000
"""Letters that one transaction deletes; the first transaction checks that there are as many as confirmed."""


def no_progress(_step: Progress) -> None:
    """Ignore a progress report."""


async def letter_of(store: Store, job_id: str) -> tuple[JobRecord, JobView]:
    """Read a letter; raise if no letter has this id."""
    wanted = id_of(job_id)
    record = await store.read(reads.job(wanted, store.boot()))
    if record is None:
        raise UnknownJob.for_id(wanted)
    if State(record.row.state) not in LETTERS:
        raise NotALetter(f"job {wanted} is not a letter: it is {record.row.state}")
    return record, job_view(record, now=store.now(), skew=store.skew())


class Disposal:
    """Ends letters, changes them, or quarantines them; of several simultaneous requests, the first wins."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    async def discard(self, job_id: str, by: str, reason: str) -> None:
        """End a letter that is no longer wanted."""
        actor = checked_actor(by, reason)
        record, letter = await letter_of(self._store, job_id)
        decided = discard(standing(record.row), attempt=record.row.attempts, **actor)
        if isinstance(decided, Refusal):
            raise NotALetter(f"job {letter.id} is not a letter: {decided.why}")
        decision = Decision(kind="discard", payload_sha256=letter.payload_sha256, outcome="discarded")
        landed = await self._store.write(apply, decided.carrying(decision))
        _check_first(letter.id, first=landed)

    async def quarantine(self, job_id: str, by: str, reason: str, owner: str | None) -> None:
        """Quarantine a letter."""
        actor = checked_actor(by, reason)
        if owner is not None:
            checked_actor(owner, reason)
        record, letter = await letter_of(self._store, job_id)
        detail = None if owner is None else {"owner": owner}
        change = _decided(
            record.row, Decision(kind="quarantine", outcome="quarantined", detail=detail, **actor), letter
        )
        _check_first(letter.id, first=await self._store.write(letters.quarantine, Quarantine(change, owner)))

    async def amend(self, job_id: str, payload: Any, by: str, reason: str) -> None:
        """Give a letter another payload, which must pass every check that a new job's would."""
        actor = checked_actor(by, reason)
        record, letter = await letter_of(self._store, job_id)
        row = record.row
        _check_not_ours(row)
        text = canonical(_with_secrets(row, payload))
        if text == row.payload:
            raise PayloadRejected(f"job {letter.id} already has this payload; nothing was written: replay it as it is")
        await check_effects_are_settled(self._store, record, self._registry.find(row.queue, row.handler))
        details = msgspec.json.decode(row.details, type=Details)
        same = await self._fitting(row, text, collected=details.collected)
        before, after = msgspec.json.decode(row.payload), msgspec.json.decode(text)
        hashes = {"before_sha256": letter.payload_sha256, "after_sha256": sha256(text)}
        detail = {**hashes, "generation": row.generation + 1, "changed": changes(before, after)}
        decision = Decision(kind="amend", outcome="amended", detail=detail, **actor)
        amendment = Amendment(
            change=_decided(row, decision, letter, sha256(text)),
            payload=text,
            details=_amended(details, row.generation + 1, actor["by"]),
            generation=row.generation + 1,
            key=next_key(row.idempotency_key, row.generation),
            fingerprint=fingerprint(row.handler, same),
        )
        _check_first(letter.id, first=await self._store.write(letters.amend, amendment))

    async def _fitting(self, row: JobRow, text: str, *, collected: bool) -> str:
        """Refuse a payload its handler cannot read, or a request that may not be sent; return what keys compare."""
        if collected and not isinstance(msgspec.json.decode(text), list):
            raise PayloadRejected(
                f"job {row.id} was collected from several jobs, so its payload is a list of payloads, one for each of "
                "them; nothing was written: give the whole list"
            )
        handler: Handler | None = self._registry.find(row.queue, row.handler)
        given = None if handler is None else handler.read(text, collected=collected)
        if row.handler == HTTP:
            job = NewJob(id=row.id, queue=row.queue, handler=row.handler, payload=text)
            http.check_destinations(
                row.queue, http.leading_inside([job]), await self._store.read(queue_scripts.rules(row.queue))
            )
        return given.identity if isinstance(given, HttpRequest) else text

    async def purge(
        self, chosen: LetterFilter, by: str, reason: str | None, confirm: int | None, progress: Heard
    ) -> dict[str, int]:
        """Delete letters for good, in batches, if there are as many as confirmed."""
        actor = {"by": person(by), "reason": None} if confirm is None else checked_actor(by, reason)
        now = self._store.now()
        check_countable(chosen)
        wanted = letter_filter(chosen, now, BITE, skew=self._store.skew())
        detail = {"filter": {name: str(value) for name, value in chosen.items()}, "count": confirm}
        decision = Decision(kind="purge", outcome="purged", detail=detail, **actor)
        first = Purge(wanted, now, decision, -1 if confirm is None else confirm)
        purged = await self._store.write(letters.purge, first)
        if purged.found != confirm:
            counted = "1 letter matches" if purged.found == 1 else f"{number(purged.found)} letters match"
            said_so = "" if confirm is None else f", and confirm is {confirm}"
            raise ConfigurationError(
                f"{counted}{said_so}; nothing was deleted: say confirm={purged.found} "
                f"(--confirm {purged.found}) if you mean all of them"
            )
        deleted = bite = purged.deleted
        while bite == BITE:
            progress(Progress("purged", deleted, confirm))
            bite = (await self._store.write(letters.purge, msgspec.structs.replace(first, confirm=None))).deleted
            deleted += bite
        progress(Progress("purged", deleted, confirm))
        return {"purged": deleted}


def _amended(details: Details, generation: int, by: str) -> str:
    """Return the details with who amended the payload: from now on the work is also theirs."""
    amenders = (*details.amenders, *({by} - {*details.amenders}))
    return msgspec.json.encode(msgspec.structs.replace(details, amended=generation, amenders=amenders)).decode()


def _decided(row: JobRow, decision: Decision, letter: JobView, sha: str | None = None) -> LetterDecision:
    about = {"job": row.id, "queue": row.queue, "payload_sha256": sha or letter.payload_sha256}
    return LetterDecision(standing(row), row.attempts, msgspec.structs.replace(decision, **about))


def _check_first(job_id: str, *, first: bool) -> None:
    if not first:
        raise NotALetter(f"job {job_id} has changed: another decision came first; nothing was changed")


def _check_not_ours(row: JobRow) -> None:
    """Refuse to change a message of standfast itself."""
    if row.queue.startswith(OURS):
        raise PayloadRejected(
            f"queue {row.queue!r} is reserved for standfast's own messages; nothing was written: "
            "replay the letter as it is, or discard it"
        )


def _sent(row: JobRow) -> tuple[Any, dict[str, Any]]:
    """Return the URL of a stored request, and its headers as sent; an imported letter may contain anything."""
    stored = msgspec.json.decode(row.payload)
    headers = stored.get("headers") if isinstance(stored, dict) else None
    return (stored["url"], headers) if isinstance(headers, dict) and "url" in stored else (None, {})


def _with_secrets(row: JobRow, payload: Any) -> Any:
    """Restore what a person was not shown: a header given as hidden stands for the stored one."""
    if row.handler != HTTP or not isinstance(payload, dict) or not isinstance(payload.get("headers"), dict):
        return payload
    url, headers = _sent(row)
    kept = {name: headers[name] for name, value in payload["headers"].items() if value == HIDDEN and name in headers}
    if kept and origin_of(payload.get("url")) != origin_of(url):
        raise PayloadRejected(
            f"the hidden {min(kept)} header belongs to the host it was given for, and the url names another; nothing "
            "was written: write the header out, or leave it out"
        )
    return {**payload, "headers": {**payload["headers"], **kept}}
