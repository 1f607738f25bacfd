"""The end of a promotion that needs an extra."""

from __future__ import annotations

from typing import TYPE_CHECKING

from standfast.errors import ConfigurationError

if TYPE_CHECKING:
    from standfast.store.postgres.target import Target


def open_target(url: str) -> Target:
    """Open what is to be filled; PostgreSQL's driver is an extra."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise ConfigurationError("a store is promoted to postgresql://…, and to nothing else")
    try:
        from standfast.store.postgres.target import Target  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise ConfigurationError("postgresql:// needs an extra: pip install 'standfast[postgres]'") from error
    return Target(url)
