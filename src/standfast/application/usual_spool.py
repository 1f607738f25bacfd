"""Where jobs wait while a store is away, if no setting says otherwise."""

from __future__ import annotations

from standfast.errors import ConfigurationError
from standfast.store.places import place
from standfast.store.spoolfile import spool_path


def usual_spool(url: str) -> str | bool | None:
    """Return the spool's file; False for a store on this host, which has none; None if the address makes no sense."""
    try:
        away = place(url).away
    except ConfigurationError:
        return None
    return False if away is None else str(spool_path(None, away))
