"""Says once in a process that its store has moved: every loop, claim and heartbeat finds out by itself."""

from __future__ import annotations

import logging

from standfast.errors import StoreMoved

log = logging.getLogger("standfast.worker")

EXIT_CODE = 78
"""What a process ends with whose store has moved: EX_CONFIG of sysexits.h, since its configuration must change."""

_told: set[str] = set()


def tell_moved(error: StoreMoved) -> None:
    """Log that the store has moved, unless this process has said so."""
    if error.home not in _told:
        _told.add(error.home)
        log.error(
            "this store has moved to %s: nothing is claimed or run here any more; "
            "start this process again with the new address, in STANDFAST_URL or standfast.toml",
            error.home,
        )
