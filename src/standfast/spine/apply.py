"""Each verb of the store as a script: a generator that yields named statements and is sent their rows. No I/O here.

One body serves every engine: SQLite's writer thread drives it inside a transaction shared with other callers,
PostgreSQL's runner awaits it. A script takes the items of all callers of one round and answers one result for each.
What it wants told goes into the `Round`, which becomes one journal row when the transaction closes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from standfast.job import ASKED, DOUBTED, Claim
from standfast.lifecycle import FINAL, MOVES, Move, State, Transition
from standfast.profiles import defaults_for
from standfast.rules import DEFAULTS, QueueRules
from standfast.spine.claim import claim_queue, has_suspects
from standfast.spine.orders import Catch, Order, Publication, gates_of
from standfast.store.room import ROOM_TO_CLAIM
from standfast.store.scripts import Patience, number_of, writes
from standfast.store.steps import End, Round, Rows, Script, lock_jobs, text
from standfast.wings.approvals import scripts as approvals
from standfast.wings.approvals.words import Standing
from standfast.wings.audit import scripts as audit
from standfast.wings.consent import scripts as consents
from standfast.wings.effects.scripts import seen_rows
from standfast.wings.jobs import scripts as operations
from standfast.wings.limits import scripts as gates
from standfast.wings.policy import scripts as policies
from standfast.wings.queues import ages, layers
from standfast.wings.redrives import scripts as redrives
from standfast.wings.sessions import scripts as sessions
from standfast.wings.threads import scripts as threads
from standfast.wings.workflows import scripts as workflows

DUE_PER_CLAIM = 500
"""How many delayed jobs one claim makes claimable; more wait for the next claim, so that none takes long."""
LOOK_AGAIN_AFTER = 0.1
"""Seconds until a claim looks again at jobs that somebody else held when their time came."""

TOLD = {
    Move.COMPLETE: "completed",
    Move.RETRY: "retry",
    Move.SNOOZE: "snoozed",
    Move.GIVE_BACK: "given_back",
    Move.DIE: "dead_letter",
    Move.HOLD: "held",
    Move.REPLAY: "replayed",
    Move.RESOLVE: "resolved",
    Move.RELEASE: "released",
    Move.DISCARD: "discarded",
    Move.CANCEL: "cancelled",
}
"""The notice each move is told as."""
KEPT_IN_HISTORY = frozenset(
    {Move.RETRY, Move.SNOOZE, Move.GIVE_BACK, Move.DIE, Move.HOLD, Move.REPLAY, Move.RESOLVE, Move.DISCARD}
)
"""The moves that end an attempt without completing it, and those by which a letter is none any more."""

NOTICES_A_ROW = 5000
"""So many notices one row of the journal has at most: as many as calls that are written together."""
SAID = {Standing.DENIED: "denied", Standing.EXPIRED: "approval_expired", Standing.VOID: "approval_void"}
"""What history calls a death that an approval's end brought, not an attempt's."""
DONE_TO_LETTERS = {"amend": "amended", "quarantine": "quarantined"}
"""What history calls the move of a held letter that a person did something else to."""

_rules = msgspec.json.Decoder(QueueRules)
_states = msgspec.json.Decoder(list[str | None])
_marked = msgspec.json.Decoder(list[tuple[int, list[str] | None, workflows.Moved | None]])


def close(round_: Round) -> Script[None]:
    """Write the round's journal row, counters and link of the chain; the last statements of every transaction."""
    yield from workflows.settle(round_)
    yield from gates.settle(round_)
    yield from _start_calls(round_)
    if round_.told:
        for entries in _journal_rows(round_.told):
            yield "write_journal", {"now": round_.now, "entries": text(entries)}
        yield "add_counters", [(queue, kind, len(ids)) for (kind, queue), ids in round_.told.items()]
    if round_.decisions:
        yield from audit.write_link(round_)


def _journal_rows(told: Mapping[tuple[str, str], Sequence[str]]) -> Iterator[list[tuple[str, str, Sequence[str]]]]:
    """Give what is told as one row, or as several where it is much: whoever reads takes a row in one piece."""
    row: list[tuple[str, str, Sequence[str]]] = []
    room = NOTICES_A_ROW
    for (kind, queue), ids in told.items():
        start = 0
        while start < len(ids):
            some = ids[start : start + room]
            row.append((kind, queue, some))
            start, room = start + len(some), room - len(some)
            if not room:
                yield row
                row, room = [], NOTICES_A_ROW
    if row:
        yield row


def _start_calls(round_: Round) -> Script[None]:
    """Start what callers brought to run themselves: before a worker's claim, which would take it from them."""
    starts, round_.starts = round_.starts, []
    for start in starts:
        yield from start(round_)


@writes(room=ROOM_TO_CLAIM)
def claim(round_: Round, orders: Sequence[Order]) -> Script[list[Catch]]:
    """Give each worker what it can start now, in the order of `spine.priority`."""
    yield from workflows.settle(round_)
    yield from gates.settle(round_)
    yield from _start_calls(round_)
    if round_.starts_nothing:
        return [Catch([], {}, None)] * len(orders)
    served = {want.queue for order in orders for want in order.wants}
    next_due = yield from _make_due_ready(round_, served)
    catches = []
    for order in orders:
        catch = yield from _fill(round_, order)
        catches.append(msgspec.structs.replace(catch, next_due=_sooner(next_due, catch.next_due)))
    return catches


def _sooner(one: float | None, other: float | None) -> float | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _make_due_ready(round_: Round, served: Collection[str]) -> Script[float | None]:
    """Make claimable what became due, and open the gates whose time has come; give the seconds until the next one's."""
    [(due_at, opens_at)] = yield "next_due", {}
    seen = 0
    if opens_at is not None and opens_at <= round_.now:
        yield from gates.open_due(round_, served)
    if due_at is not None and due_at <= round_.now:
        [(promoted,)] = yield "promote_due", {"now": round_.now, "limit": DUE_PER_CLAIM}
        seen = max(promoted, (yield from threads.admit_due(round_, DUE_PER_CLAIM)))
    following = _sooner(due_at, opens_at)
    if following is not None and following <= round_.now:
        [(due_at, opens_at)] = yield "next_due", {}
        following = _sooner(due_at, opens_at)
        if following is not None and following <= round_.now and seen < DUE_PER_CLAIM:
            return LOOK_AGAIN_AFTER  # what is left is in somebody else's hands
    return None if following is None else max(0.0, following - round_.now)


def _fill(round_: Round, order: Order) -> Script[Catch]:
    queues = [want.queue for want in order.wants]
    known = yield "queue_rules", {"queues": text(queues)}
    open_queues = {name: claims for name, _, paused, claims, _, _ in known if not paused}
    suspects = {name for name, *_, suspects, _ in known if suspects}
    rules = read_rules(queues, known)
    claims: list[Claim] = []
    again: float | None = None
    waiting: list[str] = []
    for want in order.wants:
        if want.queue in open_queues and not (want.alone and claims):  # of suspects, one at a time
            if want.queue in suspects and not want.alone and (yield from has_suspects(want)):
                waiting.append(want.queue)
            found = yield from claim_queue(round_, order.worker, want, rules[want.queue], open_queues[want.queue])
            claims += found.claims
            again = _sooner(again, found.again)
    news = bool(known) and known[0][-1] != order.policy
    return Catch(claims, rules, again, (yield from policies.kept()) if news else None, tuple(waiting))


def rules_in_force(queues: Iterable[str]) -> Script[dict[str, QueueRules]]:
    """Read the published rules of these queues; the defaults where nobody declared any."""
    known = yield "queue_rules", {"queues": text(list(queues))}
    return read_rules(queues, known)


def read_rules(queues: Iterable[str], known: Rows) -> dict[str, QueueRules]:
    """Read rules out of the rows of `queue_rules`."""
    published = {name: rules for name, rules, *_ in known}
    return {name: _rules.decode(published[name]) if published.get(name) else defaults_for(name) for name in queues}


@writes(patience=Patience.ENDLESS, gates=gates_of, number=number_of)
def apply(round_: Round, transitions: Sequence[Transition]) -> Script[list[bool]]:
    """Move jobs as decided: the one script that applies every Transition. Answer for each whether it landed.

    A death, its reason, its triage, its history line and its notice are in this one transaction.
    """
    yield from threads.lock(round_, (each.gate for each in transitions if each.gate is not None))
    yield from lock_jobs(round_, (each.n for each in transitions))
    decided = yield from operations.unless_unwanted(transitions)
    for place, each in enumerate(decided):
        if each.gate is not None and each.target == State.QUEUED:
            rules = yield from rules_in_force([each.queue])
            decided[place] = yield from threads.unless_superseded(each, threads.mode_in(each.gate, rules[each.queue]))
    return (yield from apply_decided(round_, decided))


def apply_decided(round_: Round, transitions: Sequence[Transition]) -> Script[list[bool]]:
    """Move jobs, whatever was asked of them meanwhile."""
    standing, places, steps = yield from _standing(transitions)
    allowed = yield from _allowed(transitions)
    pairs = list(zip(transitions, standing, strict=True))
    moved: dict[int, Transition] = {}
    for (transition, state), goes in zip(pairs, allowed, strict=True):
        if goes and state == transition.source:  # of two ends of one attempt in one round, the first counts
            moved.setdefault(transition.n, transition)
    if moved:
        movable = list(moved.values())
        yield from _move(round_.now, movable)
        yield from _write_down(round_, movable)
        yield from threads.release(round_, movable)
        round_.ends += [_end(each, places) for each in movable if each.n in places or each.dependency or each.hold]
        if steps:
            yield from _follow(round_, movable, steps)
    return [_landed(each, state, moved.get(each.n)) for each, state in pairs]


def _allowed(transitions: Sequence[Transition]) -> Script[list[bool]]:
    """Tell of each move whether what it was decided by is still so: an approval, a policy, a redrive."""
    stale = yield from approvals.stale(transitions)
    outdated = yield from policies.outdated(transitions)
    stopped = yield from redrives.stopped(transitions)
    return [
        (each.answers is None or each.answers.id not in stale)
        and each.ruled_under not in outdated
        and each.leg not in stopped
        for each in transitions
    ]


def _follow(round_: Round, moved: Sequence[Transition], steps: workflows.Known) -> Script[None]:
    """Move the steps of workflows that waited for these: in this transaction or not at all."""
    released, dropped = yield from workflows.following(round_, moved, steps)
    if released:
        yield from _write_down(round_, released)
    if dropped:
        yield from apply_decided(round_, dropped)


def _landed(decided: Transition, state: str | None, moved: Transition | None) -> bool:
    """Tell whether a job is where a move leads. Of what people decide about it in one round, only the first landed."""
    if moved is None or state != decided.source:
        return decided.target == state
    return moved is decided if decided.by is not None else moved.target == decided.target


def _end(moved: Transition, places: dict[int, list[str]]) -> End:
    held, waits = places.get(moved.n, []), moved.target == State.QUEUED and moved.waits
    return End(moved.n, moved.id, moved.queue, held, moved.dependency, moved.word, waits, moved.hold)


def _move(now: float, transitions: Sequence[Transition]) -> Script[None]:
    """Move the jobs; those that move alike (a batch of completions above all) share a statement."""
    alike: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for each in transitions:
        alike[each.move, each.delay, each.spends, each.defers, each.effect, each.suspect, each.in_place].append(each.n)
    for (move, delay, spends, defers, landed, suspect, in_place), numbers in alike.items():
        target = MOVES[move][1]
        times = _times(now, delay) if target == State.QUEUED else (None, None, now)
        due_at, ready_at, finished_at = times
        counts = {"spends": spends, "defers": defers, "landed": landed}
        counts["suspect"] = None if suspect is None else int(suspect)
        when = {"due_at": None if in_place else due_at, "ready_at": ready_at, "finished_at": finished_at}
        when["in_place"] = in_place
        yield "move_jobs", {"numbers": text(numbers), "target": target, **when, **counts}


def _times(now: float, delay: float) -> tuple[float | None, float | None, float | None]:
    return (now + delay, None if delay > 0 else now, None)


def _standing(
    transitions: Sequence[Transition],
) -> Script[tuple[list[str | None], dict[int, list[str]], workflows.Known]]:
    """Read the state of each job that still has the mover's token; None where the token has moved on.

    A job that already stands where its move leads was moved before an unknown commit: that counts as landed. With it
    come the gates that jobs take a place of, by number, and those that are steps of workflows.
    """
    held = text([(each.n, each.token) for each in transitions])
    [(states, marked)] = yield "standing_states", {"held": held}
    found = _marked.decode(marked)
    places = {n: occupied for n, occupied, _ in found if occupied is not None}
    return _states.decode(states), places, {n: step for n, _, step in found if step is not None}


def _write_down(round_: Round, moved: Sequence[Transition]) -> Script[None]:
    """Write what the moves leave behind: endings, history, freed keys, notices, decisions."""
    audit.record_moves(round_, moved)
    final = []
    for each in moved:
        round_.told[TOLD[each.move], each.queue].append(each.id)
        target = MOVES[each.move][1]
        if target in FINAL:
            final.append(each.n)
        elif target == State.QUEUED:
            round_.work_in(each.queue, each.delay)
    endings = [_ending(each) for each in moved if each.result or each.warning or each.triage or each.superseded_by]
    if endings:
        yield "write_endings", endings
    lines = [_line(round_, each) for each in moved if _is_kept(each)]
    if lines:
        yield "write_history", lines
    yield from _write_effects(round_, [each for each in moved if each.looks or each.reopens or each.progress])
    replayed = [each.n for each in moved if each.move == Move.REPLAY]
    if replayed:
        asked = [each.n for each in moved if each.move == Move.REPLAY and _is_a_persons(each)]
        yield "release_intents", {"numbers": text(asked), "asked": ASKED}
        yield "open_round", {"numbers": text(replayed), "now": round_.now}
        yield "count_replays", {"numbers": text(replayed)}
    discarded = [each.n for each in moved if each.move == Move.DISCARD]
    if discarded:
        yield "set_replay_status", {"numbers": text(discarded), "status": "discarded", "groups": None}
        yield "fence_jobs", {"numbers": text(discarded)}
    yield from approvals.write_down(round_, moved)
    yield from redrives.mark_moved(round_, moved)
    yield from consents.write_down(round_, moved)
    yield from sessions.tell(round_, moved)
    if final:
        yield "release_keys", {"numbers": text(final), "now": round_.now, "keep_keys": DEFAULTS.keep_keys}


def _write_effects(round_: Round, moved: Sequence[Transition]) -> Script[None]:
    """Write what is known of effects now, and how far their jobs have come."""
    looks = [row for each in moved for row in seen_rows(round_, each.n, each.token, each.attempt, each.looks)]
    if looks:
        yield "write_verdicts", looks
    reopened = [(each.n, name) for each in moved for name in each.reopens]
    if reopened:
        yield "reopen_effects", {"effects": text(reopened), "doubted": DOUBTED}
    progressed = [each.n for each in moved if each.progress]
    if progressed:
        yield "keep_progress", {"numbers": text(progressed)}
    failed = [each.n for each in moved if each.look_failed]
    if failed:
        yield "count_looks", {"numbers": text(failed), "failed": True}


def _is_kept(moved: Transition) -> bool:
    return moved.move in KEPT_IN_HISTORY or moved.effect is not None or moved.by is not None


def _is_a_persons(replay: Transition) -> bool:
    """Tell a replay that a person asked for: a policy that replays by itself knows nothing of the world."""
    return replay.by is not None and (replay.decision is None or replay.decision.kind != "auto_replay")


def _ending(transition: Transition) -> tuple[Any, ...]:
    failure = transition.failure and text(transition.failure)
    triage = transition.triage and text(transition.triage)
    left = (transition.result, transition.warning, failure, triage, transition.superseded_by)
    replay_at = transition.triage and transition.triage.replay_at
    return (transition.n, *left, transition.fingerprint, transition.policy_snapshot, replay_at)


def _line(round_: Round, transition: Transition) -> tuple[int, str]:
    line: dict[str, Any] = {"attempt": transition.attempt, "at": round_.now, "worker": transition.worker}
    failure = transition.last_failure or transition.failure
    if failure is not None:
        line |= msgspec.to_builtins(failure)
        del line["advice"], line["cause"]  # a line tells of one attempt: its reason code is its own
    else:
        line |= {"reason_code": _said(transition) or TOLD[transition.move], "landed": transition.landed}
    asked = {"by": transition.by, "reason": transition.reason}
    line |= {name: value for name, value in asked.items() if value is not None}
    if transition.target == State.QUEUED:
        line["delay"] = transition.delay
    for mark in ("possible_duplicate", "refused"):
        if getattr(transition, mark):
            line[mark] = True
    return (transition.n, text(line))


def _said(transition: Transition) -> str | None:
    """Give history's word for a move that somebody's answer or decision brought."""
    if transition.answers is not None:
        return SAID.get(transition.answers.target)
    return None if transition.decision is None else DONE_TO_LETTERS.get(transition.decision.kind)


@writes(apart=True)
def publish(round_: Round, publications: Sequence[Publication]) -> Script[list[bool]]:
    """Put declarations in force for every process: the last published wins. Answer whether a `max_age` changed."""
    ages_changed = False
    for publication in publications:
        queues, there = yield from layers.merge(publication)
        used = text({name: rules for name, rules in queues.items() if name in there})
        changed = yield "changed_ages", {"queues": used}
        regulated = yield "changed_gates", {"queues": used}
        yield "publish_queues", {"queues": text(queues), "now": round_.now}
        yield "publish_handlers", {"handlers": text(publication.handlers), "now": round_.now}
        ages_changed = ages_changed or bool(changed)
        yield from ages.mark(round_, [name for (name,) in changed])
        if regulated:  # last: after this it waits for nobody
            yield "lock_all_jobs", {}
            yield from gates.regulate(round_, {name: queues[name] for (name,) in regulated})
    return [ages_changed] * len(publications)
