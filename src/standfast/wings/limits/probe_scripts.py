"""Scripts for handlers whose probes say no: their jobs are parked visibly, unless the handler is up elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from standfast.lifecycle import NoticeKind
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script
from standfast.wings.limits import scripts as ours
from standfast.wings.limits import words as gates
from standfast.wings.limits.words import Row

RELEASED_AT_ONCE = 1000
"""How many jobs follow at once when a handler is back; the others follow with the next claims."""


class DisabledHandlers(NamedTuple):
    """The handlers whose jobs are parked, each with its gate, and those whose jobs are left to other processes."""

    shut: dict[str, str]
    left: frozenset[str]


def record_probes(round_: Round, queue: str, ready: Mapping[str, str | None]) -> Script[DisabledHandlers]:
    """Record what a process says about its handlers' probes: None is a yes, a text says why not."""
    keys = {handler: gates.of_key("probe", queue, handler) for handler in sorted(ready)}
    known = yield from ours.read_gates(keys.values())
    tried = yield from ours.try_gates(
        keys[name] for name, why in ready.items() if why is not None or keys[name] in known
    )
    known = (yield from ours.read_gates(tried)) if tried else {}
    shut: dict[str, str] = {}
    for name, key in keys.items():
        why, row = ready[name], known.get(key)
        if key not in tried:
            continue
        if why is not None:
            row = yield from _denied(round_, (queue, name), row, why)
            if not gates.disabled(row).up:
                shut[name] = key
        elif row is not None:
            yield from _restored(round_, (queue, name), row)
    return DisabledHandlers(
        shut, frozenset(name for name, why in ready.items() if why is not None and name not in shut)
    )


def _denied(round_: Round, whose: tuple[str, str], row: Row | None, why: str) -> Script[Row]:
    queue, handler = whose
    after = gates.denied(row, gates.of_key("probe", queue, handler), why, round_.now)
    if after != row:
        yield from ours.write_gates([after])
    if row is None:
        round_.notices[NoticeKind.REGISTRY_DISABLED, queue].append(handler)
    return after


def _restored(round_: Round, whose: tuple[str, str], row: Row) -> Script[None]:
    """Let the jobs follow that wait for a handler that is back."""
    queue, handler = whose
    if not gates.disabled(row).up:
        round_.notices[NoticeKind.REGISTRY_AUTO_RECOVERED, queue].append(handler)
    yield from ours.let_through(round_, {row.key: RELEASED_AT_ONCE}, ticket=False)
    after = gates.restored(row, round_.now)
    if after != row:
        yield from ours.write_gates([after])


@writes()
def override_disabled(round_: Round, ids: Sequence[str]) -> Script[list[bool]]:
    """Let jobs run although their handler is disabled, because a person asked; return for each whether it waited."""
    answers = []
    for job_id in ids:
        rows = yield "insist_on_job", {"id": job_id, "now": round_.now}
        for _, queue in rows:
            round_.note_work(queue, 0.0)
        answers.append(bool(rows))
    return answers
