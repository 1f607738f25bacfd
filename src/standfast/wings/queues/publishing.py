"""Puts declarations in force."""

from __future__ import annotations

import time
from contextlib import suppress

from standfast.errors import StoreUnavailable
from standfast.spine.claim_requests import Publication
from standfast.store.store import Store
from standfast.wings.queues import ages, scripts

RESTAMPING = 5.0
"""Seconds for which the publisher of a changed `max_age` gives waiting jobs their new expiry."""


def publish(store: Store, publication: Publication) -> None:
    """Put declarations in force, also for waiting jobs: if those are many, sweepers do the rest."""
    ages_changed = store.write(scripts.publish, publication).result()
    give_up = time.monotonic() + RESTAMPING
    with suppress(StoreUnavailable):  # the declarations are in force, and the sweepers continue
        while ages_changed and time.monotonic() < give_up:
            ages_changed = store.write(ages.restamp, None).result()
