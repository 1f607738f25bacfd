"""What holds jobs back before they start: limits, rates, breakers and admission gates, as values and arithmetic.

A gate is a row with a key. A job that may not pass is parked on the gate's key, spends no attempt, and is let through
when a place, a token or the dependency comes back. What a gate lets through has a ticket: its key stands in the job's
`occupies`, so that no later job takes its place. Nothing here does I/O; the store's scripts ask.
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
"""Characters of a key that stand in its gate's name; of longer ones a hash does."""
SMOOTH = 0.1
"""Seconds whose share of a rate may start at the same moment, unless `burst` says otherwise."""
LONGEST_OPEN = 600.0
"""Seconds a breaker stays open at most, however often its probes failed."""
FIRST_BATCH = 8
"""How many jobs follow the probe that found a dependency back; each second as many again, twice as many."""
BATCH_EVERY = 1.0
PROBE_PATIENCE = 60.0
"""Seconds after which it is looked whether a probe is still under way."""
UNWANTED_AFTER = 3600.0
"""Seconds after which a breaker without waiting jobs is forgotten, so that health does not report it for ever."""
SAID_HOLDS = 120.0
"""Seconds for which counts what a process said of a handler's probes; it says so again as long as it lives."""
SAID_AGAIN_AFTER = 20.0
DENIAL_SHOWN = 60.0
BLOCKING = frozenset({"open", "half", "probing"})
"""The states of a breaker in which nothing but its probe may start."""


class Row(NamedTuple):
    """A gate as the store has it. Field order is that of its statements."""

    key: str
    kind: str
    holder: int | None = None
    capacity: int | None = None
    used: int = 0
    opens_at: float | None = None
    detail: str | None = None


# --- names


def of_queue(kind: Kind, queue: str) -> str:
    """Name the gate of a whole queue. No two queues share one, whatever colons their names hold."""
    return f"{kind}:{queue.replace('%', '%25').replace(':', '%3A')}"


def queue_of(key: str) -> str:
    """Give the queue that a limit, rate, hold or admission gate belongs to."""
    return key.split(":")[1].replace("%3A", ":").replace("%25", "%")


def of_key(kind: Kind, queue: str, key: str) -> str:
    """Name the gate of one key of a queue."""
    return f"{of_queue(kind, queue)}:{key}"


def of_dependency(dependency: str) -> str:
    """Name the breaker of what jobs depend on."""
    return f"breaker:{dependency}"


def key_in(payload: Any, path: str) -> str:
    """Give the value at a path such as `payload.tenant`, as the text it is counted by.

    Text stands for itself, anything else for its JSON, so 7 and "7" are one key. What has none shares one: "".
    Of collected payloads the first counts.
    """
    found = payload[0] if isinstance(payload, list) and payload else payload
    for name in path.split(".")[1:]:
        found = found.get(name) if isinstance(found, dict) else None
    if found is None:
        return ""
    text = (found or '""') if isinstance(found, str) else msgspec.json.encode(found, order="sorted").decode()
    return text if len(text) <= LONGEST_KEY else f"sha256-{hashlib.sha256(text.encode()).hexdigest()}"


def destination(payload: Any) -> str | None:
    """Give scheme, host and port that an HTTP job calls; None if it cannot be read."""
    try:
        url = urlsplit(payload["url"])
        port = url.port or {"http": 80, "https": 443}[url.scheme]
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return f"{url.scheme}://{url.hostname}:{port}" if url.hostname else None


# --- which may start


class Room(msgspec.Struct):
    """What a gate can still take, while a claim decides."""

    free: int
    """Places or tokens left."""
    parks: bool = True
    """Whether who finds it full is parked. At a gate that all jobs of a queue pass, they can stay where they are."""
    stays: bool = True
    """Whether a place is taken while the job runs; a token is only spent."""


class Candidate(NamedTuple):
    """A job that could be next, the gates it must pass, and those that have let it through already."""

    n: int
    gates: tuple[str, ...]
    tickets: frozenset[str] = frozenset()


class AdmissionResult(NamedTuple):
    """Who starts and which places it takes; who is parked where and which tickets it keeps; places given up."""

    start: list[tuple[int, list[str]]]
    park: list[tuple[int, str, list[str]]]
    returned: list[str]


def admit(candidates: Sequence[Candidate], rooms: Mapping[str, Room], slots: int) -> AdmissionResult:
    """Let candidates start in their order while there are slots and room. A gate without a room is busy: its jobs stay.

    Who is parked gives up its places, because it may wait long for another gate; tokens are paid for and stay its own.
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
    """Give the room of a limit, as the rules in force have it."""
    return Room(limit.limit - (row.used if row else 0), parks=limit.key is not None)


def rate_room(row: Row | None, rate: Rate, now: float) -> Room:
    """Give the room of a rate: the tokens it has now."""
    return Room(meter(row, rate).tokens(now), parks=rate.key is not None, stays=False)


# --- rates


class Meter(msgspec.Struct, frozen=True):
    """What a rate remembers: when all its tokens are back, the seconds each takes for that, how many it holds."""

    until: float
    each: float
    burst: int

    def tokens(self, now: float) -> int:
        """Give the tokens it has now."""
        return max(0, int(self.burst - self._owed(now) / self.each + 1e-6))

    def spent(self, now: float, tokens: int) -> Meter:
        """Spend some."""
        return Meter(now + self._owed(now) + tokens * self.each, self.each, self.burst)

    def next_at(self, now: float) -> float:
        """Give when there is a token."""
        return now + max(0.0, self._owed(now) - (self.burst - 1) * self.each)

    def _owed(self, now: float) -> float:
        """Give the seconds it takes until all are back; never longer than that takes, whatever a clock did."""
        return min(max(0.0, self.until - now), self.burst * self.each)


_read_meter = msgspec.json.Decoder(Meter).decode


def meter(row: Row | None, rate: Rate | None = None) -> Meter:
    """Read what a rate remembers, under the rules in force if they are at hand.

    With burst - 1 tokens fewer a period, no window of that length ever sees more than the limit.
    """
    known = _read_meter(row.detail) if row and row.detail else Meter(0.0, 1.0, 1)
    if rate is None:
        return known
    burst = rate.burst or max(1, int(rate.limit * min(SMOOTH, rate.per) / rate.per))
    return Meter(known.until, rate.per / (rate.limit - burst + 1), burst)


def metered(row: Row, found: Meter, now: float, *, waited_for: bool) -> Row:
    """Give a rate after tokens were spent; where a job is parked, it opens when the next token is there."""
    opens_at = found.next_at(now) if waited_for else None
    return row._replace(detail=msgspec.json.encode(found).decode(), opens_at=opens_at)


# --- what breaks


class Circuit(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a breaker remembers beside its failures."""

    state: Literal["closed", "open", "half", "probing", "recovering"] = "closed"
    since: float = 0.0
    open_for: float = 5.0
    """Seconds it stays open now; twice as long after each probe that failed."""
    batch: int = FIRST_BATCH
    last: int = 0
    """The last probe: the next one is another job."""


_read_circuit = msgspec.json.Decoder(Circuit).decode


def circuit(row: Row | None) -> Circuit:
    """Read what a breaker remembers."""
    return _read_circuit(row.detail) if row and row.detail else Circuit()


def _with(row: Row, found: Circuit, opens_at: float | None, **changed: Any) -> Row:
    return row._replace(detail=msgspec.json.encode(found).decode(), opens_at=opens_at, **changed)


def blocks(row: Row | None) -> bool:
    """Tell whether nothing but a probe may start."""
    return circuit(row).state in BLOCKING


def breaker_of(rules: Breaker | None, request: Any) -> str | None:
    """Name the breaker before a job: the host it calls if it is a request, else what its queue names."""
    if rules is None:
        return None
    named = rules.dependency if request is None else destination(request)
    return None if named is None else of_dependency(named)


def breaker_room(row: Row | None) -> Room | None:
    """Give the room of a breaker; None if it lets everything pass. Half open, it has one place: the probe's."""
    return Room(int(circuit(row).state == "half")) if blocks(row) else None


class DependencyAnswer(NamedTuple):
    """What the end of an attempt says about a dependency: that it answers, that it does not, or nothing."""

    answers: bool | None
    enough: int
    """After so many failures in a row it is open."""
    open_for: float


class Report(Carried, frozen=True):
    """What a move carries about the thing its attempt depended on: its breaker, and what the end says about it."""

    dependency: str | None = None
    word: DependencyAnswer | None = None
    waits: bool = False
    """Whether the job goes back to wait for the dependency rather than for a backoff."""


def after(row: Row, word: DependencyAnswer, now: float, *, probe: int | None = None) -> Row:
    """Give a breaker after one end. `probe` is the job's number if it was the probe, whatever it says."""
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
    """Close, and let those who wait follow little by little: a dependency that is just back is not to be run over."""
    if found.state not in BLOCKING:
        return row._replace(used=0)
    return _with(row, Circuit("recovering", now, found.open_for), now, holder=None, used=0)


def probing(row: Row, n: int, now: float) -> Row:
    """Send this job as the probe."""
    found = msgspec.structs.replace(circuit(row), state="probing", last=n)
    return _with(row, found, now + PROBE_PATIENCE, holder=n)


def half_open(row: Row, now: float) -> Row:
    """Let the first job be the probe. A breaker that no job has needed for long is closed."""
    found = msgspec.structs.replace(circuit(row), state="half")
    if now - found.since >= UNWANTED_AFTER:
        return row._replace(holder=None, used=0, opens_at=None, detail=None)
    return _with(row, found, now + PROBE_PATIENCE, holder=None)


def next_batch(row: Row, now: float) -> Row:
    """Give a recovering breaker after it let a batch follow."""
    found = circuit(row)
    return _with(row, msgspec.structs.replace(found, batch=found.batch * 2), now + BATCH_EVERY)


# --- admission


class Closing(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a queue's gate is closed, and since when."""

    since: float
    why: str
    broken: bool = False
    """Whether it could not be asked, rather than said no."""


# --- handlers whose probes say no


class Disabled(msgspec.Struct, frozen=True, omit_defaults=True):
    """What processes say of a handler: that its probes say no, why and since when; or that one of them has it up."""

    since: float
    why: str
    up: bool = False
    denied_at: float = 0.0
    """When a process last said no, while another one has it up."""


_read_disabled = msgspec.json.Decoder(Disabled).decode


def disabled(row: Row) -> Disabled:
    """Read what is said of a handler."""
    return _read_disabled(row.detail or '{"since":0,"why":""}')


def denied(row: Row | None, key: str, why: str, now: float) -> Row:
    """Give the gate of a handler after a process said no: shut, unless another one has it up."""
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
    """Give the gate of a handler after a process said yes: open, for as long as others are told of that."""
    known = disabled(row)
    if known.up and (_holds(row, now) or now - known.denied_at > SAID_HOLDS):
        return row
    return _described(row, msgspec.structs.replace(known, up=True), now + SAID_HOLDS)


def also_denied(found: Disabled, now: float) -> bool:
    """Tell whether a process still says no, while another one has the handler up."""
    return found.up and now - found.denied_at < DENIAL_SHOWN


def _holds(row: Row, now: float) -> bool:
    return (row.opens_at or 0.0) - now > SAID_HOLDS - SAID_AGAIN_AFTER


def _described(row: Row, disabled: Disabled, opens_at: float | None) -> Row:
    return row._replace(detail=msgspec.json.encode(disabled).decode(), opens_at=opens_at)
