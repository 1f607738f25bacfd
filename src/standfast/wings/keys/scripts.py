"""Scripts for idempotency keys: a key is taken before its job is stored, and kept for a while after the job's end."""

from __future__ import annotations

from collections.abc import Sequence

from standfast.job import NewJob, Receipt
from standfast.lifecycle import FINAL, State, Transition
from standfast.rules import DEFAULTS
from standfast.spine.claim_requests import Conflict
from standfast.spine.riders import Answers, Queues
from standfast.store.steps import Round, Rows, Script, text


def take(round_: Round, jobs: Sequence[NewJob], _known: Queues, answers: Answers) -> Script[None]:
    """Take the keys of new jobs; answer the jobs whose key already exists."""
    keyed = [job for job in jobs if job.idempotency_key is not None]
    if keyed:
        answers |= yield from _existing(round_, keyed)


def _existing(round_: Round, keyed: Sequence[NewJob]) -> Script[dict[str, Receipt | Conflict]]:
    """Find the jobs whose keys already exist, using only the unique index."""
    keys = [(job.queue, job.idempotency_key, job.id, job.fingerprint, round_.now) for job in keyed]
    twice = [job for job in keyed if job.body_key is not None]
    keys += [(job.queue, job.body_key, job.id, job.body_key, round_.now) for job in twice]
    owners: Rows = []
    while len(owners) < len(keys):  # a key that just expired may be deleted between the two statements
        yield "take_keys", sorted(keys, key=lambda row: row[:2])  # in the order every transaction takes them
        owners = yield "key_owners", {"keys": text(keys)}
    prints = {job.id: (job.fingerprint, job.body_key) for job in keyed}
    if twice:  # the owner of the body key comes before the owner of the idempotency key
        owners = sorted(owners, key=lambda row: row[2] == prints[row[0]][1])
    answers: dict[str, Receipt | Conflict] = {}
    for job_id, owner, fingerprint, state, final in owners:
        if owner != job_id and fingerprint not in prints[job_id]:
            answers[job_id] = Conflict(owner)
        elif owner != job_id:
            answers[job_id] = Receipt(owner, "duplicate", state or (State.QUEUED if owner in prints else None))
        elif final and state is None:  # the job itself, stored by an unacknowledged commit, ended and pruned since
            answers[job_id] = Receipt(job_id, "accepted", None)
    known = [job.id for job in twice if job.id in answers]
    if known:  # one of its two keys may be new: a job that is not stored keeps neither
        yield "forget_keys", {"ids": text(known)}
    return answers


def release(round_: Round, moved: Sequence[Transition]) -> Script[None]:
    """Set when the keys of ended jobs expire."""
    final = [each.n for each in moved if each.target in FINAL]
    if final:
        yield "release_keys", {"numbers": text(final), "now": round_.now, "keep_keys": DEFAULTS.keep_keys}
