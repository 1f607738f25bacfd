"""How each condition that is an alert comes about, and how it goes; and what was told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from standfast import PolicyDenied, Standfast
from standfast.outcome import Succeeded
from standfast.store.store_location import StoreLocation
from standfast.testing import drain
from standfast.testing.kit import InMemory
from standfast.wings.alerts import scripts as alerts
from standfast.wings.alerts.lookout import Lookout
from standfast.wings.alerts.scripts import Word
from standfast.wings.alerts.words import AlertKind, Condition
from standfast.wings.health.verbs import wrong_now
from standfast.wings.notices.journal import journal
from standfast.wings.notices.scripts import JournalRow
from tests.store.suite import beat, claim_one, ended, sweep
from tests.worker.inside import store_of

Act = Callable[[InMemory, pytest.MonkeyPatch], Awaitable[None]]
DENY = "version: v1\nreplay_rules:\n  - match: {}\n    decision: deny\n    why: never\n"


async def cancel_all(sf: InMemory, _: pytest.MonkeyPatch) -> None:
    for job in await sf.jobs(state="queued"):
        await sf.cancel(job.id)


async def fill(sf: InMemory, _: pytest.MonkeyPatch) -> None:
    sf.queue("mail", attempts=1, depth_warning=2)
    await sf.enqueue_many("mail", [{}, {}, {}])


async def _die(sf: InMemory, _: pytest.MonkeyPatch) -> None:
    sf.queue("mail", attempts=1, dead_warning=0, growth_warning=0, denial_warning=1)
    await sf.enqueue("mail", {})
    await drain(sf)


async def _discard(sf: InMemory, _: pytest.MonkeyPatch) -> None:
    for letter in await sf.dead_letters.list():
        await sf.dead_letters.discard(letter.id, by="me", reason="done with it")


async def _wait_ten_minutes(sf: InMemory, _: pytest.MonkeyPatch) -> None:
    sf.clock.advance(600)


async def _be_denied(sf: InMemory, patch: pytest.MonkeyPatch) -> None:
    await sf.policy.load(DENY)
    await _die(sf, patch)
    for letter in await sf.dead_letters.list():
        with suppress(PolicyDenied):
            await sf.dead_letters.replay(letter.id, by="me")


async def _wait_an_hour(sf: InMemory, _: pytest.MonkeyPatch) -> None:
    sf.clock.advance(3600)


async def _leave_waiting(sf: InMemory, _: pytest.MonkeyPatch) -> None:
    await sf.enqueue("mail", {})
    sf.clock.advance(60)


async def _sweep_once(sf: InMemory, _: pytest.MonkeyPatch) -> None:
    await sf.enqueue("mail", {})  # a store with nothing to do needs no sweeper
    await sweep(store_of(sf))
    sf.clock.advance(20)


async def _sweep_on(sf: InMemory, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("standfast.wings.health.verbs.SWEEP_EVERY", 1e9)
    await sweep(store_of(sf))


async def _leave_running(sf: InMemory, _: pytest.MonkeyPatch) -> None:
    await sf.enqueue("mail", {})
    sf.claim = await claim_one(store_of(sf))  # type: ignore[attr-defined] # for who ends it
    sf.clock.advance(60)


async def _hang(sf: InMemory, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("standfast.wings.health.verbs.SILENT_AFTER", 1e9)
    await _leave_running(sf, patch)
    sf.clock.advance(901)
    beat(store_of(sf))


async def _return(sf: InMemory, _: pytest.MonkeyPatch) -> None:
    assert await ended(store_of(sf), sf.claim, Succeeded())  # type: ignore[attr-defined]


async def _run_dry(sf: InMemory, _: pytest.MonkeyPatch) -> None:
    sf.queue("mail", attempts=1, idle_warning="2m")
    await sf.enqueue("mail", {})
    await drain(sf)
    sf.clock.advance(121)


async def _run_again(sf: InMemory, _: pytest.MonkeyPatch) -> None:
    sf.queue("mail", attempts=1, idle_warning="1d")
    await sf.enqueue("mail", {})
    await drain(sf)


async def refuse(sf: InMemory, _: pytest.MonkeyPatch) -> None:
    await store_of(sf).write(alerts.note_sinks, Word("ops", "refused"))
    sf.clock.advance(300)


async def take(sf: InMemory, _: pytest.MonkeyPatch) -> None:
    await store_of(sf).write(alerts.note_sinks, Word("ops"))


async def fill_disk(_: InMemory, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoreLocation, "free_bytes", lambda _premises: 1 << 20)


async def free_disk(_: InMemory, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoreLocation, "free_bytes", lambda _premises: 1 << 40)


STORIES: dict[str, tuple[Act, Act]] = {
    "depth": (fill, cancel_all),
    "dead_letters": (_die, _discard),
    "dead_letter_growth": (_die, _wait_ten_minutes),
    "replay_denials": (_be_denied, _wait_an_hour),
    "no_worker": (_leave_waiting, cancel_all),
    "late_sweeper": (_sweep_once, _sweep_on),
    "stalled": (_leave_running, _return),
    "overdue": (_hang, _return),
    "zero_activity": (_run_dry, _run_again),
    "dead_sink:ops": (refuse, take),
    "low_disk": (fill_disk, free_disk),
}


FULL = Condition(AlertKind.LOW_DISK, "disk is low")


async def looked(sf: InMemory, times: int = 1, *, apart: float = 10.0, lookouts: int = 2) -> None:
    """Let time pass and let several look at once, so many times."""
    racing = [Lookout(store_of(sf), sf.clock, wrong_now) for _ in range(lookouts)]
    for _ in range(times):
        sf.clock.advance(apart)
        await asyncio.gather(*(each.look() for each in racing))


async def notices(sf: Standfast, *kinds: str) -> list[tuple[str, str, str]]:
    """Give what was told of these kinds: kind, queue, and what it names."""
    rows: list[JournalRow] = []
    while more := await journal(store_of(sf), rows[-1].seq if rows else 0, 10_000):
        rows += more
    entries = [entry for row in rows for entry in msgspec.json.decode(row.entries)]
    return [(kind, queue, name) for kind, queue, names in entries if kind in kinds for name in names]


async def edges(sf: Standfast, name: str) -> list[str]:
    """Give the beginnings and ends that were told of an alert."""
    told_of = await notices(sf, "alert_started", "alert_ended")
    return [kind.removeprefix("alert_") for kind, _, of in told_of if of == name]


async def open_alerts(sf: Standfast) -> dict[str, dict[str, Any]]:
    found = (await sf.health())["alerts"]
    return {f"{each['kind']}:{each['subject']}" if each["subject"] else each["kind"]: each for each in found}
