"""What holds jobs back before they start: limits, rates, breakers and admission gates, as values and arithmetic.

A gate is a row with a key. A job that may not pass is parked on the gate's key, spends no attempt, and is let through
when a place, a token or the dependency comes back. A job that a gate lets through has a ticket: the gate's key in its
`occupies`, so that no later job takes its place. Nothing here does I/O; the store's scripts call it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from standfast.lifecycle import Carried
from standfast.rules import Breaker, Limit, Rate

Kind = Literal["thread", "limit", "rate", "breaker", "gate", "probe", "hold"]
LONGEST_KEY = 200
"""The most characters of a key that its gate's name has; a longer key is replaced by a hash."""
SMOOTH = 0.1
"""A rate's share of so many seconds may start at the same moment, unless `burst` says otherwise."""
LONGEST_OPEN = 600.0
"""The most seconds that a breaker stays open, however often its probes failed."""
FIRST_BATCH = 8
"""How many jobs follow the probe that found a dependency back; each second, the batch doubles."""
BATCH_EVERY = 1.0
PROBE_PATIENCE = 60.0
"""Seconds after which to check whether a probe is still under way."""
UNWANTED_AFTER = 3600.0
"""Seconds after which a breaker without waiting jobs is forgotten, so that `health` does not report it forever."""
SAID_HOLDS = 120.0
"""Seconds for which a process's word on a handler's probes counts; it repeats its word as long as it lives."""
SAID_AGAIN_AFTER = 20.0
DENIAL_SHOWN = 60.0
BLOCKING = frozenset({"open", "half", "probing"})
"""The states of a breaker in which only its probe may start."""


class Row(NamedTuple):
    """A gate's row in the store. Field order is that of its statements."""

    key: str
    kind: str
    holder: int | None = None
    capacity: int | None = None
    used: int = 0
    opens_at: float | None = None
    detail: str | None = None


# --- names


def of_queue(kind: Kind, queue: str) -> str:
    """Return the gate of a whole queue. No two queues share one, whatever colons their names contain."""
    return f"{kind}:{queue.replace('%', '%25').replace(':', '%3A')}"


def queue_of(key: str) -> str:
    """Return the queue that a limit, rate, hold or admission gate belongs to."""
    return key.split(":")[1].replace("%3A", ":").replace("%25", "%")


def of_key(kind: Kind, queue: str, key: str) -> str:
    """Return the gate of one key of a queue."""
    return f"{of_queue(kind, queue)}:{key}"


def of_dependency(dependency: str) -> str:
    """Return the breaker of a dependency."""
    return f"breaker:{dependency}"


def key_in(payload: Any, path: str) -> str:
    """Return the value at a path such as `payload.tenant`, as the text it is counted by.

    Text stands for itself, any other value for its JSON, so 7 and "7" are one key. Payloads without the value share the
    key "". Of collected payloads the first counts.
    """
    found = payload[0] if isinstance(payload, list) and payload else payload
    for name in path.split(".")[1:]:
        found = found.get(name) if isinstance(found, dict) else None
    if found is None:
        return ""
    text = (found or '""') if isinstance(found, str) else msgspec.json.encode(found, order="sorted").decode()
    return text if len(text) <= LONGEST_KEY else f"sha256-{hashlib.sha256(text.encode()).hexdigest()}"


def destination(payload: Any) -> str | None:
    """Return the scheme, host and port that an HTTP job calls; None if they cannot be read."""
    try:
        url = urlsplit(payload["url"])
        port = url.port or {"http": 80, "https": 443}[url.scheme]
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return f"{url.scheme}://{url.hostname}:{port}" if url.hostname else None


# --- which may start


class Room(msgspec.Struct):
    """How many jobs a gate can still take, while a claim decides."""

    free: int
    """Places or tokens left."""
    parks: bool = True
    """Whether jobs that find it full are parked. At a gate that all jobs of a queue pass, they can stay in line."""
    stays: bool = True
    """Whether a place is taken while the job runs; a token is spent at once."""


class Candidate(NamedTuple):
    """A job that could be next, the gates it must pass, and those that have already let it through."""

    n: int
    gates: tuple[str, ...]
    tickets: frozenset[str] = frozenset()


class AdmissionResult(NamedTuple):
    """Which jobs start, with the places they take; which are parked, where, with the tickets kept; freed places."""

    start: list[tuple[int, list[str]]]
    park: list[tuple[int, str, list[str]]]
    returned: list[str]


def admit(candidates: Sequence[Candidate], rooms: Mapping[str, Room], slots: int) -> AdmissionResult:
    """Let candidates start in their order while there are slots and room. A gate not in `rooms` is busy: its jobs stay.

    A parked job gives up its places, because it may wait long for another gate; it keeps its tokens, which are spent.
    """
    found = AdmissionResult([], [], [])
    for each in candidates:
        if len(found.start) == slots:
            break
        if any(gate not in rooms for gate in (*each.gates, *each.tickets)):
            continue
        missing = [gate for gate in each.gates if gate not in each.tickets]
        shut = next((gate for gate in missing if rooms[gate].free <= 0), None)
        if shut is None:
            for gate in missing:
                rooms[gate].free -= 1
            found.start.append((each.n, [gate for gate in each.gates if rooms[gate].stays]))
            found.returned.extend(gate for gate in each.tickets if gate not in each.gates and rooms[gate].stays)
        elif rooms[shut].parks:
            found.park.append((each.n, shut, [gate for gate in each.tickets if not rooms[gate].stays]))
            found.returned.extend(gate for gate in each.tickets if rooms[gate].stays)
    return found


# --- limits


def limit_room(row: Row | None, limit: Limit) -> Room:
    """Return the room of a limit under the rules in force."""
    return Room(limit.limit - (row.used if row else 0), parks=limit.key is not None)


def rate_room(row: Row | None, rate: Rate, now: float) -> Room:
    """Return the room of a rate: the tokens it has now."""
    return Room(meter(row, rate).tokens(now), parks=rate.key is not None, stays=False)


# --- rates


class Meter(msgspec.Struct, frozen=True):
    """What a rate stores: when all its tokens are back, the seconds until each is back, and how many it holds."""

    until: float
    each: float
    burst: int

    def tokens(self, now: float) -> int:
        """Return the tokens it has now."""
        return max(0, int(self.burst - self._owed(now) / self.each + 1e-6))

    def spent(self, now: float, tokens: int) -> Meter:
        """Return the meter after some tokens were spent."""
        return Meter(now + self._owed(now) + tokens * self.each, self.each, self.burst)

    def next_at(self, now: float) -> float:
        """Return when there is a token."""
        return now + max(0.0, self._owed(now) - (self.burst - 1) * self.each)

    def _owed(self, now: float) -> float:
        """Return the seconds until all tokens are back; never more than a full refill takes, whatever a clock did."""
        return min(max(0.0, self.until - now), self.burst * self.each)


_read_meter = msgspec.json.Decoder(Meter).decode


def meter(row: Row | None, rate: Rate | None = None) -> Meter:
    """Read what a rate stores, under the rules in force if they are given.

    With burst - 1 tokens fewer per period, no window of that length ever exceeds the limit.
    """
    known = _read_meter(row.detail) if row and row.detail else Meter(0.0, 1.0, 1)
    if rate is None:
        return known
    burst = rate.burst or max(1, int(rate.limit * min(SMOOTH, rate.per) / rate.per))
    return Meter(known.until, rate.per / (rate.limit - burst + 1), burst)


def metered(row: Row, found: Meter, now: float, *, waited_for: bool) -> Row:
    """Return a rate's row after tokens were spent; if a job is parked, it opens when the next token is there."""
    opens_at = found.next_at(now) if waited_for else None
    return row._replace(detail=msgspec.json.encode(found).decode(), opens_at=opens_at)


# --- what breaks


class Circuit(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a breaker stores besides its failures."""

    state: Literal["closed", "open", "half", "probing", "recovering"] = "closed"
    since: float = 0.0
    open_for: float = 5.0
    """Seconds it now stays open; doubled after each failed probe."""
    batch: int = FIRST_BATCH
    last: int = 0
    """The job that was the last probe: the next probe is another one."""


_read_circuit = msgspec.json.Decoder(Circuit).decode


def circuit(row: Row | None) -> Circuit:
    """Read what a breaker stores."""
    return _read_circuit(row.detail) if row and row.detail else Circuit()


def _with(row: Row, found: Circuit, opens_at: float | None, **changed: Any) -> Row:
    return row._replace(detail=msgspec.json.encode(found).decode(), opens_at=opens_at, **changed)


def blocks(row: Row | None) -> bool:
    """Return whether only a probe may start."""
    return circuit(row).state in BLOCKING


def breaker_of(rules: Breaker | None, request: Any) -> str | None:
    """Return the breaker before a job: of the host it calls if it is a request, otherwise of its queue's dependency."""
    if rules is None:
        return None
    named = rules.dependency if request is None else destination(request)
    return None if named is None else of_dependency(named)


def breaker_room(row: Row | None) -> Room | None:
    """Return the room of a breaker; None if it lets every job pass. Half open, it has one place: the probe's."""
    return Room(int(circuit(row).state == "half")) if blocks(row) else None


class DependencyAnswer(NamedTuple):
    """What the end of an attempt says about a dependency: that it answers, that it does not, or nothing."""

    answers: bool | None
    enough: int
    """The number of failures in a row that opens the breaker."""
    open_for: float


class Report(Carried, frozen=True):
    """Carried by a move: the breaker of the job's dependency, and what the attempt's end says about it."""

    dependency: str | None = None
    word: DependencyAnswer | None = None
    waits: bool = False
    """Whether the job goes back to wait for the dependency rather than for a backoff."""


def after(row: Row, word: DependencyAnswer, now: float, *, probe: int | None = None) -> Row:
    """Return a breaker's row after one end. `probe` is the job's number if it was the probe, whatever its end says."""
    found = circuit(row)
    if word.answers:
        return _recover(row, found, now)
    row = row._replace(used=row.used + (word.answers is False))
    if probe is not None:
        longer = min(LONGEST_OPEN, found.open_for * 2) if word.answers is False else found.open_for
        found = msgspec.structs.replace(found, state="open", open_for=longer, last=probe)
        return _with(row, found, now + (longer if word.answers is False else 0.0), holder=None)
    if found.state in BLOCKING or row.used < word.enough:
        return row
    return _with(row, Circuit("open", now, word.open_for), now + word.open_for)


def _recover(row: Row, found: Circuit, now: float) -> Row:
    """Close, and let the waiting jobs follow little by little: a dependency that is just back must not be overrun."""
    if found.state not in BLOCKING:
        return row._replace(used=0)
    return _with(row, Circuit("recovering", now, found.open_for), now, holder=None, used=0)


def probing(row: Row, n: int, now: float) -> Row:
    """Make this job the probe."""
    found = msgspec.structs.replace(circuit(row), state="probing", last=n)
    return _with(row, found, now + PROBE_PATIENCE, holder=n)


def half_open(row: Row, now: float) -> Row:
    """Let the first job be the probe; but close a breaker that no job has needed for long."""
    found = msgspec.structs.replace(circuit(row), state="half")
    if now - found.since >= UNWANTED_AFTER:
        return row._replace(holder=None, used=0, opens_at=None, detail=None)
    return _with(row, found, now + PROBE_PATIENCE, holder=None)


def next_batch(row: Row, now: float) -> Row:
    """Return a recovering breaker's row after it let a batch follow."""
    found = circuit(row)
    return _with(row, msgspec.structs.replace(found, batch=found.batch * 2), now + BATCH_EVERY)


# --- admission


class Closing(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a queue's gate is closed, and since when."""

    since: float
    why: str
    broken: bool = False
    """Whether the gate could not be asked, rather than said no."""


# --- handlers whose probes say no


class Disabled(msgspec.Struct, frozen=True, omit_defaults=True):
    """What processes say about a handler: that its probes say no, why and since when; or that one has it up."""

    since: float
    why: str
    up: bool = False
    denied_at: float = 0.0
    """When a process last said no, while it is up in another one."""


_read_disabled = msgspec.json.Decoder(Disabled).decode


def disabled(row: Row) -> Disabled:
    """Read what processes say about a handler."""
    return _read_disabled(row.detail or '{"since":0,"why":""}')


def denied(row: Row | None, key: str, why: str, now: float) -> Row:
    """Return the gate of a handler after a process said no: shut, unless it is up in another one."""
    known = None if row is None else disabled(row)
    if row is not None and known is not None and known.up:
        recently = now - known.denied_at < SAID_AGAIN_AFTER
        return (
            row if recently else _described(row, msgspec.structs.replace(known, why=why, denied_at=now), row.opens_at)
        )
    if row is not None and known is not None and known.why == why and _holds(row, now):
        return row
    return _described(Row(key, "probe"), Disabled(now if known is None else known.since, why), now + SAID_HOLDS)


def restored(row: Row, now: float) -> Row:
    """Return the gate of a handler after a process said yes: open, and kept for a while as a record of that."""
    known = disabled(row)
    if known.up and (_holds(row, now) or now - known.denied_at > SAID_HOLDS):
        return row
    return _described(row, msgspec.structs.replace(known, up=True), now + SAID_HOLDS)


def also_denied(found: Disabled, now: float) -> bool:
    """Return whether a process still says no, while the handler is up in another one."""
    return found.up and now - found.denied_at < DENIAL_SHOWN


def _holds(row: Row, now: float) -> bool:
    return (row.opens_at or 0.0) - now > SAID_HOLDS - SAID_AGAIN_AFTER


def _described(row: Row, disabled: Disabled, opens_at: float | None) -> Row:
    return row._replace(detail=msgspec.json.encode(disabled).decode(), opens_at=opens_at)
