"""Scripts for inboxes: a session's message about a job is written together with the job's end, or not at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from standfast.failure import Failure
from standfast.failure.letter_advice import QUARANTINED
from standfast.job import Details
from standfast.lifecycle import LETTERS, AskedBy, JobRef, NoticeKind, State, Transition
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, lock_jobs, text
from standfast.wings.approvals.words import Answer
from standfast.wings.calls.words import CALLED, CALLER
from standfast.wings.policy.triage import Judgement
from standfast.wings.sessions.words import DEFERRED, Origin, kind_of
from standfast.wings.threads.words import SupersededBy

ENDS = frozenset({State.COMPLETED, State.CANCELLED, State.DEAD, State.HELD})
LONGEST_RESULT = 4000
"""The most characters of a result that a message carries; a longer one is fetched by the job's id."""
HISTORY_KEPT = 10
"""How many of the last lines of a job's history a message carries."""
MOST_KEPT = 1000
"""The most messages of a session; the oldest are deleted first."""

_failure = msgspec.json.Decoder(Failure).decode
_details = msgspec.json.Decoder(Details).decode


class Message(NamedTuple):
    """A message's row in the store. Field order is the statement's; `body` is a `Body` as JSON text."""

    id: str
    session: str
    kind: str
    job: str
    queue: str
    handler: str
    at: float
    read_at: float | None
    body: str


class Body(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a message says about a job."""

    state: str
    attempts: int = 0
    failure: Failure | None = None
    warning: str | None = None
    result: str | None = None
    long: bool = False
    """Whether there is a result that is too long to be carried here."""
    by: str | None = None
    reason: str | None = None
    """Who ended it and why, if a person did."""
    answer: str | None = None
    """How an approval was answered, if that ended it; or what the policy said about its automatic replay."""
    quarantined: bool = False
    """Whether it was quarantined."""
    owner: str | None = None
    """The owner that it was quarantined for."""
    history: list[msgspec.Raw] = []
    maybe: bool = False
    """Whether an earlier run may have done it too."""
    workflow: str | None = None
    workflow_id: str | None = None
    step: str | None = None
    """The workflow it is a step of, and the step's name."""


class Step(NamedTuple):
    """A step of a workflow: the workflow's id and name, and its own name. Field order is the statement's."""

    workflow_id: str | None = None
    workflow: str | None = None
    step: str | None = None


NO_STEP = Step()


class EndedJob(NamedTuple):
    """Whose job ended, how often it was tried, and its earlier failure."""

    origin: Origin
    attempts: int
    failure: Failure | None = None
    step: Step = NO_STEP


def tell(round_: Round, moved: Sequence[Transition]) -> Script[None]:
    """Write the messages of sessions about these ends. A job without a session costs nothing if a worker ended it."""
    known = {each.n: EndedJob(origin, each.attempt + each.spends) for each in moved if (origin := each.rider(Origin))}
    known |= yield from _caller_not_there(moved, known)
    others = [each for each in moved if each.source is not State.RUNNING and _may_concern_somebody(each)]
    if others:
        known |= yield from _origins(others)
    messages = [
        (each, known[each.n], kind) for each in moved if each.n in known and (kind := _kind(each, known[each.n]))
    ]
    if messages:
        lines = yield from _histories([each.n for each, _, _ in messages if each.target != State.COMPLETED])
        steps = yield from _steps([each.n for each, _, _ in messages])
        rows = [
            _row(round_, each, whose._replace(step=steps.get(each.n, NO_STEP)), kind, lines.get(each.n, []))
            for each, whose, kind in messages
        ]
        yield "write_messages", sorted(rows)
        for each, _, _ in messages:
            round_.notices[NoticeKind.INBOX, each.queue].append(each.id)


def _caller_not_there(moved: Sequence[Transition], known: Mapping[int, EndedJob]) -> Script[dict[int, EndedJob]]:
    """Return the ends that are worth a message only because the caller does not see them itself.

    The caller has gone away; or another process ran the call, and the caller may be gone by now without notice; or its
    session has an earlier message, such as that the job waits for consent.
    """
    silent = {
        each.n: each for each in moved if each.n in known and each.target in ENDS and not known[each.n].origin.deferred
    }
    given = {"numbers": text([*silent]), "again": text([n for n, each in silent.items() if each.token > 1])}
    rows = (yield "ends_not_seen", given) if silent else []
    return {n: _promised(known[n]) for n, *why in rows if _is_unseen(silent[n], known[n].origin, *why)}


def _is_unseen(moved: Transition, origin: Origin, reason: str | None, told: int) -> bool:
    if reason == DEFERRED:
        return True
    ran_elsewhere = reason == CALLED and not (moved.worker or "").startswith(CALLER)
    return moved.target == State.COMPLETED and not origin.repeated and (bool(told) or ran_elsewhere)


def _promised(ended: EndedJob) -> EndedJob:
    return ended._replace(origin=msgspec.structs.replace(ended.origin, deferred=True))


def _may_concern_somebody(moved: Transition) -> bool:
    """Return whether no attempt made this end: a sweeper or a person does not know the job's session."""
    return moved.rider(Origin) is None and moved.target in ENDS and moved.rider(SupersededBy) is None


def _origins(moved: Sequence[Transition]) -> Script[dict[int, EndedJob]]:
    letters = {each.n for each in moved if each.source in LETTERS}
    rows = yield "origins_of", {"numbers": text([each.n for each in moved])}
    return {
        n: EndedJob(
            Origin(session, handler, bool(deferred), attempts > 0 or bool(maybe), replays > 0 or n in letters),
            attempts,
            failure and _failure(failure),
        )
        for n, session, handler, deferred, attempts, replays, failure, maybe in rows
    }


def _kind(moved: Transition, whose: EndedJob) -> str | None:
    judgement = moved.rider(Judgement)
    scheduled = judgement is not None and judgement.replays_by_itself
    superseded = moved.rider(SupersededBy) is not None
    return kind_of(whose.origin, moved.source, moved.target, superseded=superseded, replays_by_itself=scheduled)


def _histories(numbers: Sequence[int]) -> Script[dict[int, list[str]]]:
    found: defaultdict[int, list[str]] = defaultdict(list)
    if numbers:
        for n, entry in (yield "history_of", {"numbers": text(numbers)}):
            found[n].append(entry)
    return found


def _steps(numbers: Sequence[int]) -> Script[dict[int, Step]]:
    """Read the workflows and steps that jobs belong to."""
    return {n: Step(*rest) for n, *rest in (yield "workflow_steps", {"numbers": text(numbers)})}


def _row(round_: Round, moved: Transition, whose: EndedJob, kind: str, lines: Sequence[str]) -> tuple[Any, ...]:
    answer, asked = moved.rider(Answer), moved.rider(AskedBy) or AskedBy()
    judgement = moved.rider(Judgement)
    set_apart = judgement is not None and judgement.triage.replay_status == QUARANTINED
    body = Body(
        state=moved.target,
        attempts=whose.attempts,
        failure=moved.failure or whose.failure,
        warning=moved.warning,
        result=_short(moved.result),
        long=moved.result is not None and len(moved.result) > LONGEST_RESULT,
        by=asked.by,
        reason=asked.reason,
        answer=None if answer is None else answer.target,
        quarantined=set_apart,
        owner=judgement.triage.owner if judgement is not None and set_apart else None,
        history=_last(lines),
        maybe=whose.origin.maybe,
        **whose.step._asdict(),
    )
    # A message's id is that of the end: the job, its token, and how many lines its history has by now.
    head = (f"{moved.id}.{moved.token}.{len(lines)}", whose.origin.session, kind, moved.id, moved.queue)
    return (*head, whose.origin.handler, round_.now, text(body))


def _last(lines: Sequence[str]) -> list[msgspec.Raw]:
    return [msgspec.Raw(line.encode()) for line in lines[-HISTORY_KEPT:]]


def _short(result: str | None) -> str | None:
    return None if result is None or len(result) > LONGEST_RESULT else result


class AbandonedReplay(NamedTuple):
    """A letter whose automatic replay the policy has refused, or a restore has taken back; `status` says which."""

    n: int
    token: int
    id: str
    queue: str
    status: str


def tell_gave_up(round_: Round, letter: AbandonedReplay) -> Script[None]:
    """Announce that a letter will not be replayed automatically: until now its death was not announced."""
    round_.notices[NoticeKind.GAVE_UP, letter.queue].append(letter.id)
    yield from _tell_of_letter(round_, letter, "gave_up", Body(state=State.DEAD, answer=letter.status))


def tell_set_apart(round_: Round, letter: JobRef, asked: AskedBy, owner: str | None) -> Script[None]:
    """Announce that a person has quarantined a letter: earlier messages about it no longer hold."""
    body = Body(state=State.DEAD, by=asked.by, reason=asked.reason, quarantined=True, owner=owner)
    yield from _tell_of_letter(round_, letter, "set_apart", body)


def _tell_of_letter(round_: Round, letter: JobRef | AbandonedReplay, what: str, said: Body) -> Script[None]:
    """Tell the session of a letter what became of it, with what is stored about it. Each message is written once."""
    for n, session, handler, deferred, attempts, _, failure, _ in (yield "origins_of", {"numbers": text([letter.n])}):
        lines = (yield from _histories([n]))[n]
        body = msgspec.structs.replace(
            said,
            attempts=attempts,
            failure=failure and _failure(failure),
            history=_last(lines),
            **(yield from _steps([n])).get(n, NO_STEP)._asdict(),
        )
        kind = "submit_failed" if deferred else "retry_exhausted"
        # Sorts after the id of the end that may come with it: of two simultaneous messages, the later id is the news.
        head = (f"{letter.id}.{letter.token}.{len(lines)}.{what}", session, kind, letter.id, letter.queue)
        yield "write_messages", [(*head, handler, round_.now, text(body))]
        round_.notices[NoticeKind.INBOX, letter.queue].append(letter.id)


class ReceivedReply(NamedTuple):
    """A job whose end its caller has seen, and the caller's session."""

    job: str
    session: str


class UnreadReply(NamedTuple):
    """A job whose caller went away before its reply. Field order is the statement's."""

    n: int
    token: int
    id: str
    queue: str
    handler: str
    state: str
    attempts: int
    details: str
    result: str | None
    warning: str | None
    told: bool


@writes()
def keep_replies(round_: Round, jobs: Sequence[str]) -> Script[list[None]]:
    """Announce the ends of jobs to their sessions, because the callers did not wait for the reply.

    The end of a finished job is announced now. A job that goes on becomes a deferred submission, announced at its end.
    """
    in_inbox = []
    for job in jobs:
        for row in (yield "unheard_job", {"id": job}):
            yield from lock_jobs(round_, [row[0]])
        for row in (yield "unheard_job", {"id": job}):
            found = UnreadReply(*row)
            details = _details(found.details)
            if found.told and found.state in ENDS:
                in_inbox.append(ReceivedReply(found.id, details.session or ""))
            elif details.session is not None:
                yield from _keep_reply(round_, found, details, details.session)
    for each in in_inbox:  # it may be marked as read, because a reply was on its way
        yield "reopen_messages", each._asdict()
    return [None] * len(jobs)


def _keep_reply(round_: Round, found: UnreadReply, details: Details, session: str) -> Script[None]:
    if found.state not in ENDS:
        yield "set_details", {"n": found.n, "details": text(msgspec.structs.replace(details, queue_reason=DEFERRED))}
    elif found.state == State.COMPLETED:  # every other end was announced already
        body = Body(
            state=found.state,
            attempts=found.attempts,
            warning=found.warning,
            result=_short(found.result),
            long=found.result is not None and len(found.result) > LONGEST_RESULT,
        )
        head = (f"{found.id}.{found.token}.unheard", session, "submit_done", found.id, found.queue)
        yield "write_messages", [(*head, found.handler, round_.now, text(body))]
        round_.notices[NoticeKind.INBOX, found.queue].append(found.id)


# --- reading


@writes()
def receive_replies(round_: Round, replies: Sequence[ReceivedReply]) -> Script[list[None]]:
    """Mark the ends of calls as read: their callers have the reply."""
    for each in replies:
        yield "receive_reply", {**each._asdict(), "now": round_.now}
    return [None] * len(replies)


class ReadRequest(NamedTuple):
    """Messages to mark as read; with a session, only its own."""

    ids: list[str]
    session: str | None = None


@writes()
def read(round_: Round, readings: Sequence[ReadRequest]) -> Script[list[list[str]]]:
    """Mark messages as read; return the ids of those that exist."""
    answers = []
    for each in readings:
        given = {"ids": text(sorted(each.ids)), "session": each.session, "now": round_.now}
        answers.append([found for (found,) in (yield "read_messages", given)])
    return answers


def messages(session: str, limit: int, *, unread: bool) -> Script[list[Message]]:
    """Read the messages of one session, the newest first."""
    given = {"session": session, "limit": limit}
    rows = (yield "unread_messages", given) if unread else (yield "all_messages", given)
    return [Message(*row) for row in rows]


class SessionStates(NamedTuple):
    """How many jobs of a session are in each state, when the first queued one is due, and the messages not yet read."""

    jobs: dict[str, int]
    next_due: float | None
    unread: int


def states(session: str, queues: Sequence[str] | None) -> Script[SessionStates]:
    """Count a session's jobs and messages, exactly; with `queues`, only jobs of these queues."""
    given = {"session": session, "quoted": text(session)[1:-1], "queues": None if queues is None else text(queues)}
    rows = yield "session_states", given
    [(unread,)] = yield "count_unread", {"session": session}
    due = {state: first for state, _, first in rows}
    return SessionStates({state: count for state, count, _ in rows}, due.get(State.QUEUED), unread)


def prune(now: float, limit: int, keep: float, keep_unread: float) -> Script[None]:
    """Delete messages that were read long ago, a session's surplus, and messages that were never fetched."""
    yield "delete_messages", {"before": now - keep, "limit": limit}
    yield "delete_surplus_messages", {"most": MOST_KEPT, "limit": limit, "oldest": now - keep_unread}
