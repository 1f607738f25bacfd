"""Scripts that amend, quarantine, purge and evict letters. Each leaves its decision and its notice behind."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from operator import attrgetter
from secrets import token_hex

import msgspec

from standfast.job import ASKED
from standfast.lifecycle import LETTERS, AskedBy, JobRef, Move, NoticeKind, State, Transition
from standfast.rules import DEFAULTS, QueueRules
from standfast.spine.apply import apply_decided
from standfast.spine.claim import rules_in_force
from standfast.store.scripts import Patience, number_of, writes
from standfast.store.steps import Round, Rows, Script, lock_jobs, text
from standfast.wings.approvals import scripts as approvals
from standfast.wings.audit import scripts as audit
from standfast.wings.audit.words import Decision
from standfast.wings.policy.scripts import SCHEDULED
from standfast.wings.records.listing import looked_at
from standfast.wings.records.reads import SoughtLetters, delete_whole
from standfast.wings.sessions import scripts as sessions

AMENDED = "its payload was amended"
SET_APART = "the letter was quarantined"
RETENTION = "retention"
"""The actor of evictions."""

_states = msgspec.json.Decoder(list[str | None])


class LetterDecision(msgspec.Struct, frozen=True):
    """A letter as it was read, and a decision about it; `decision` says by whom and why."""

    letter: JobRef
    attempt: int
    decision: Decision
    mark: str = msgspec.field(default_factory=lambda: token_hex(6))
    """Identifies this decision if it is handed in again."""


class Amendment(msgspec.Struct, frozen=True):
    """Another payload for a letter, its next generation. `key` is the caller's key, followed by the generation."""

    change: LetterDecision
    payload: str
    details: str
    generation: int
    key: str | None = None
    fingerprint: str | None = None


class Quarantine(msgspec.Struct, frozen=True):
    """A letter to quarantine, and who is to look after it."""

    change: LetterDecision
    owner: str | None = None


class Purge(msgspec.Struct, frozen=True):
    """Letters to delete that stopped by `until`; `confirm` is how many there must be, None once that was checked.

    `decision` is added to the audit chain once as it is, then for each letter without its detail.
    """

    wanted: SoughtLetters
    until: float
    decision: Decision
    confirm: int | None = None


class Purged(msgspec.Struct, frozen=True):
    """How many letters there were, if that was asked for, and how many of them were deleted."""

    found: int
    deleted: int


@writes(number=attrgetter("change.letter.n"))
def amend(round_: Round, amendments: Sequence[Amendment]) -> Script[list[bool]]:
    """Give letters another payload; return for each whether it was still as it was read.

    The old key still answers with this job. Earlier decisions about the old payload no longer count.
    """
    yield from lock_jobs(round_, (each.change.letter.n for each in amendments))
    answers = []
    for each in amendments:
        letter = each.change.letter
        answer = yield from _written(round_, each.change, NoticeKind.AMENDED, AMENDED)
        if answer is Written.NOW:
            key = yield from _take_key(round_, each)
            body = {"payload": each.payload, "details": each.details, "generation": each.generation}
            yield "amend_body", {"n": letter.n, "key": key, **body}
            yield "mark_letter", {"n": letter.n, "status": "pending_review", "owner": None}
        answers.append(answer is not Written.NOT)
    return answers


def _take_key(round_: Round, amendment: Amendment) -> Script[str | None]:
    """Take the amended payload's key; if another job already has that text as its key, the job's id is appended."""
    if amendment.key is None:
        return None
    letter = amendment.change.letter
    for key in (amendment.key, f"{amendment.key}~{letter.id}"):
        yield "take_keys", [(letter.queue, key, letter.id, amendment.fingerprint, round_.now)]
        owners = yield "key_owners", {"keys": text([(letter.queue, key, letter.id)])}
        if [owner for _, owner, *_ in owners] == [letter.id]:
            return key
    raise LookupError(f"no key can be had for job {letter.id}")


@writes(number=attrgetter("change.letter.n"))
def quarantine(round_: Round, quarantines: Sequence[Quarantine]) -> Script[list[bool]]:
    """Quarantine letters: they are not replayed automatically. Return for each whether it was still as it was read."""
    yield from lock_jobs(round_, (each.change.letter.n for each in quarantines))
    answers = []
    for each in quarantines:
        answer = yield from _written(round_, each.change, NoticeKind.QUARANTINED, SET_APART)
        if answer is Written.NOW:
            yield "mark_letter", {"n": each.change.letter.n, "status": "quarantined", "owner": each.owner}
            asked = AskedBy(each.change.decision.by, each.change.decision.reason)
            yield from sessions.tell_set_apart(round_, each.change.letter, asked, each.owner)
        answers.append(answer is not Written.NOT)
    return answers


class Written(Enum):
    """Whether a decision was written: in this round, by an earlier commit whose answer was lost, or not at all."""

    NOW = "now"
    BEFORE = "before"
    NOT = "not"


def _written(round_: Round, change: LetterDecision, word: NoticeKind, why: str) -> Script[Written]:
    """Write a decision about a letter, unless the letter has changed since it was read.

    A held letter is dead from then on: the answer it waited for was about the letter as it was. Other decisions that
    are based on an earlier read of it come too late.
    """
    letter, decision = change.letter, change.decision
    [(states, _)] = yield "standing_states", {"held": text([(letter.n, letter.token)])}
    if _states.decode(states) != [letter.state]:
        return (yield from _written_before(change))
    yield from approvals.void([letter.n], why)
    if letter.state == State.HELD:
        here = (letter.n, letter.token, letter.id, letter.queue)
        carries = (AskedBy(decision.by, decision.reason, change.mark), decision)
        death = Transition(*here, Move.DIE, State.HELD, change.attempt, carries=carries)
        yield from apply_decided(round_, [death])
    else:
        audit.record(round_, decision)
        line = {
            "attempt": change.attempt,
            "at": round_.now,
            "reason_code": word,
            "by": decision.by,
            "reason": decision.reason,
            "token": letter.token,
            "mark": change.mark,
        }
        yield "write_history", [(letter.n, text(line))]
    round_.notices[word, letter.queue].append(letter.id)
    yield "fence_jobs", {"numbers": text([letter.n])}
    return Written.NOW


def _written_before(change: LetterDecision) -> Script[Written]:
    """Look up in the history whether this very decision was written."""
    rows = yield "history_of", {"numbers": text([change.letter.n])}
    own = {"token": change.letter.token, "mark": change.mark}
    lines = map(msgspec.json.decode, (entry for _, entry in rows))
    return Written.BEFORE if any(own.items() <= line.items() for line in lines) else Written.NOT


# --- deleting


@writes(patience=Patience.LONG, separate=True, size=attrgetter("wanted.limit"))
def purge(round_: Round, purges: Sequence[Purge]) -> Script[list[Purged]]:
    """Delete letters up to the filter's limit, each with its decision; none unless there are as many as confirmed."""
    answers = []
    for each in purges:
        chosen = {**each.wanted._asdict(), "until": each.until}
        limit, _ = chosen.pop("limit"), chosen.pop("before")
        found = 0
        if each.confirm is not None:
            [(found,)] = yield "count_purgeable", chosen
            if found != each.confirm:
                answers.append(Purged(found, 0))
                continue
            audit.record(round_, each.decision)
        rows = yield "purgeable_letters", {**chosen, "limit": limit}
        yield from _delete(round_, rows, msgspec.structs.replace(each.decision, detail=None), NoticeKind.PURGED)
        answers.append(Purged(found, len(rows)))
    return answers


def evict(round_: Round, limit: int) -> Script[int]:
    """Delete dead letters that their queues no longer keep, each with its decision; return how many."""
    names = [name for (name,) in (yield "queue_names", {})]
    rules = yield from rules_in_force(names)
    evicted = 0
    for name in names:
        for rows, why in (yield from _kept_no_longer(round_, name, rules[name], limit)):
            decision = Decision(kind="evict", by=RETENTION, reason=why, outcome="evicted")
            yield from _delete(round_, rows, decision, NoticeKind.EVICTED)
            evicted += len(rows)
    return evicted


def _kept_no_longer(round_: Round, queue: str, rules: QueueRules, limit: int) -> Script[list[tuple[Rows, str]]]:
    keep, found = rules.keep_dead, []
    if keep is not None and keep.age is not None:
        rows = yield "old_letters", {"queue": queue, "before": round_.now - keep.age, "limit": limit}
        found.append((rows, f"keep_dead of {queue} keeps letters for {keep.age:g} s"))
    if keep is not None and keep.count is not None:
        rows = yield "surplus_letters", {"queue": queue, "keep": keep.count, "limit": limit}
        old = {n for n, *_ in found[0][0]} if found else set()
        found.append(([row for row in rows if row[0] not in old], f"keep_dead of {queue} keeps {keep.count} letters"))
    return found


def _delete(round_: Round, rows: Rows, decision: Decision, word: NoticeKind) -> Script[None]:
    """Delete letters, whole. Their keys still answer for as long as those of finished jobs."""
    if not rows:
        return
    numbers = text([n for n, *_ in rows])
    yield "void_approvals", {"numbers": numbers, "why": f"the letter was {word}"}
    yield "fail_deleted", {"numbers": numbers, "now": round_.now}
    yield "release_keys", {"numbers": numbers, "now": round_.now, "keep_keys": DEFAULTS.keep_keys}
    yield from delete_whole(round_, numbers)
    for _, job_id, queue in rows:
        audit.record(round_, msgspec.structs.replace(decision, job=job_id, queue=queue))
        round_.notices[word, queue].append(job_id)


# --- moves of letters


def write_moves(round_: Round, moved: Sequence[Transition]) -> Script[None]:
    """Open a new round for replayed letters, and mark discarded ones as such."""
    replayed = [each.n for each in moved if each.move == Move.REPLAY]
    if replayed:
        by_person = [each.n for each in moved if each.move == Move.REPLAY and _is_a_persons(each)]
        yield "release_intents", {"numbers": text(by_person), "asked": ASKED}
        yield "open_round", {"numbers": text(replayed), "now": round_.now}
        yield "count_replays", {"numbers": text(replayed)}
    discarded = [each.n for each in moved if each.move == Move.DISCARD]
    if discarded:
        yield "set_replay_status", {"numbers": text(discarded), "status": "discarded", "groups": None, "approval": None}
        yield "fence_jobs", {"numbers": text(discarded)}


def _is_a_persons(replay: Transition) -> bool:
    """Return whether a person asked for this replay: an automatic one knows nothing about the world."""
    decision = replay.rider(Decision)
    return replay.actor is not None and (decision is None or decision.kind != "auto_replay")


# --- grouping letters by cause


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """One letter, as groups need it. Field order is the statement's."""

    n: int
    token: int
    id: str
    queue: str
    handler: str
    fingerprint: str | None
    failure: str | None
    finished_at: float
    replays: int


def walk(wanted: SoughtLetters) -> Script[tuple[list[Mark], dict[int, list[str]], int | None]]:
    """Read a batch of letters, newest first, with the histories of replayed ones, and where to continue."""
    end = yield from looked_at(wanted)
    rows = yield "walk_letters", wanted._replace(above=end or 0)._asdict()
    marks = [Mark(*row) for row in rows]
    again = [mark.n for mark in marks if mark.replays]
    lines: dict[int, list[str]] = {n: [] for n in again}
    if again:
        for n, entry in (yield "history_of", {"numbers": text(again)}):
            lines[n].append(entry)
    return marks, lines, marks[-1].n if len(marks) == wanted.limit else end


@writes()
def stamp(_round: Round, stamps: Sequence[tuple[int, int, str]]) -> Script[list[None]]:
    """Give fingerprints to letters that were written without: number, token, fingerprint."""
    yield "stamp_fingerprints", list(stamps)
    return [None] * len(stamps)


class Refusal(msgspec.Struct, frozen=True):
    """A letter whose replay a policy refused. `decision` is chained, unless it repeats the last one."""

    n: int
    token: int
    id: str
    queue: str
    status: str
    snapshot: str
    decision: Decision


@writes(number=number_of)
def refuse(round_: Round, refusals: Sequence[Refusal]) -> Script[list[bool]]:
    """Record that letters may not be replayed; return for each whether it is still the letter asked about."""
    yield from lock_jobs(round_, (each.n for each in refusals))
    [(states, *_)] = yield "standing_states", {"held": text([(each.n, each.token) for each in refusals])}
    answers = []
    for each, state in zip(refusals, msgspec.json.decode(states), strict=True):
        stands = state in LETTERS
        if stands:
            yield from _refuse(round_, each)
        answers.append(stands)
    return answers


def _refuse(round_: Round, refusal: Refusal) -> Script[None]:
    [(status, _, refused_at)] = (yield "last_refusal", {"n": refusal.n}) or [(None, None, None)]
    given = {"status": refusal.status, "snapshot": refusal.snapshot, "now": round_.now}
    yield "refuse_replays", {"n": refusal.n, **given}
    round_.notices[NoticeKind.REPLAY_DENIED, refusal.queue].append(refusal.id)
    if status == SCHEDULED:
        letter = sessions.AbandonedReplay(refusal.n, refusal.token, refusal.id, refusal.queue, refusal.status)
        yield from sessions.tell_gave_up(round_, letter)
    if refused_at is None or status != refusal.status:  # repeated requests must not fill the chain
        audit.record(round_, refusal.decision)
