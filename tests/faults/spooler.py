"""A producer for tests: `python spooler.py URL SPOOL TOLD NAME COUNT [STEP]`. It dies by SIGKILL at the step, if any.

What it was told goes to a file that the product does not write, one line to one write, before the next job is made.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from standfast import Standfast
from standfast.store import store as store_module
from standfast.store.postgres.postgres_engine import PostgresEngine
from standfast.store.spool import Spool
from standfast.wings.relay import relay

THREAD = 5
"""Every so many-th job is of a thread, and every one after it has a key."""
LONGEST = 30.0

Step = tuple[type | ModuleType, str, bool]
STEPS: dict[str, Step] = {
    "before the spool has it": (Spool, "put", False),
    "before the caller is told": (Spool, "put", True),
    "before it is brought": (relay, "hand_over", False),
    "before the commit": (PostgresEngine, "_commit", False),
    "before the commit is answered": (PostgresEngine, "_commit", True),
    "before it is forgotten": (Spool, "delete", False),
    "after it is forgotten": (Spool, "delete", True),
}


def deadly(place: Any, name: str, *, after: bool) -> None:
    """Make the second call of this method the last thing the process does: the first may be of its opening."""
    real: Callable[..., Any] = getattr(place, name)
    calls = iter(range(1000))

    def die(*given: Any, **named: Any) -> Any:
        last = next(calls) >= 1 or name in {"hand_over", "delete"}
        if last and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = real(*given, **named)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(place, name, die)


def options(number: int, name: str) -> dict[str, Any]:
    if number % THREAD == 0:
        return {"thread_key": name, "coalesce": "latest"}
    return {"idempotency_key": f"{name}-{number}"} if number % THREAD == 1 else {}


def produce(url: str, told: str, name: str, count: int) -> None:
    sf = Standfast(url)
    descriptor = os.open(told, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for number in range(count):
        receipt = sf.enqueue_sync("mail", {"name": name, "number": number}, **options(number, name))
        os.write(descriptor, f"{name} {number} {receipt.id} {receipt.outcome}\n".encode())
    sys.stdout.write("done\n")
    sys.stdout.flush()
    wait_until_empty(sf)


def wait_until_empty(sf: Standfast) -> None:
    """Stay until the spool is empty; what another process of this host brings counts as well."""
    reception = sf._reception  # noqa: SLF001
    spool = reception._spool  # noqa: SLF001
    assert spool is not None
    reception._forwarder(spool)  # noqa: SLF001
    give_up = time.monotonic() + LONGEST
    while spool.depth():
        assert time.monotonic() < give_up, "the spool did not get empty"
        time.sleep(0.01)


if __name__ == "__main__":
    url_, os.environ["STANDFAST_SPOOL"], told_, name_, count_, *step = sys.argv[1:]
    store_module.PATIENCE = 0.3
    if step:
        place_, method, after_ = STEPS[step[0]]
        deadly(place_, method, after=after_)
    produce(url_, told_, name_, int(count_))
