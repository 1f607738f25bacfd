"""Backs up a live store, and restores a backup without rerunning jobs that may have run since."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from standfast.concurrency.threads import run_in_thread
from standfast.failure import Failure, Landed, reason
from standfast.failure.fingerprint import fingerprint
from standfast.spine.accept import user
from standfast.store.store import Store
from standfast.wings.audit.words import Decision
from standfast.wings.backup.restore import RestoreOptions, StoreAt
from standfast.wings.backup.restore import restore as restore_store
from standfast.wings.backup.scripts import RestoredHold
from standfast.wings.policy.triage import triage

RUNS = ("queued", "running")
"""The states of jobs that would run by themselves."""


TABLES = ("jobs", "bodies", "endings", "history", "keys", "journal")
"""What is counted apart from the jobs of each state."""


async def back_up(store: Store, path: str | Path) -> dict[str, Any]:
    """Copy the store to a new file, verified, while work goes on; return what the copy holds."""
    held = await run_in_thread(store.location.back_up, str(path))
    return _report(path, held)


def restore(
    url: str, path: str | Path, store_at: StoreAt, *, run: bool = False, revoke_tokens: bool = False
) -> dict[str, Any]:
    """Restore a backup to a new store; an existing one is never overwritten.

    Jobs that were queued or running come back `held`, for they may have run since; with `run` they run again. Letters
    that were to be replayed automatically wait for a person, redrives are paused, and approvals that were not used are
    void. Completed jobs stay completed, and keys still answer.

    Tokens and consents that were revoked since the backup are valid again, and the report counts all that are valid;
    with `revoke_tokens` no token is.
    """
    options = RestoreOptions(None if run else _holding(path), revoke_tokens, _decision(path))
    restored = restore_store(url, str(path), options, store_at)
    return {
        **_report(url, restored.contents),
        "held": 0 if run else sum(restored.contents.get(state, 0) for state in RUNS),
        "replays_taken_back": restored.replays_taken_back,
        "revoked_tokens": restored.revoked_tokens,
        "valid_tokens": restored.authority.tokens,
        "valid_consents": restored.authority.consents,
    }


def _decision(path: str | Path) -> Decision:
    return Decision(kind="restore", by=user(), outcome="restored", detail={"backup": Path(path).name})


def _report(where: str | Path, held: dict[str, int]) -> dict[str, Any]:
    states = {name: number for name, number in held.items() if name not in TABLES}
    return {"path": str(where), "jobs": held["jobs"], "keys": held["keys"], "states": states}


def _holding(path: str | Path) -> RestoredHold:
    why = reason("restored")
    message = f"restored from {Path(path).name}"
    failure = Failure(cls=why.cls, landed=Landed.MAYBE, reason_code=why.code, message=message, advice=why.advice)
    return RestoredHold(failure, triage(failure), name=partial(fingerprint, failure=failure))
