"""Where the store is: a PostgreSQL URL, and the parts of it that are standfast's own."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from standfast.errors import ConfigurationError

DEFAULT_SCHEMA = "standfast"
OURS = {"schema", "listen", "prepare"}
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class Address(NamedTuple):
    """A server, the schema that holds the store, and where to listen for notifications if a pooler is in between."""

    server: str
    schema: str
    listen: str
    prepares: bool | None = None
    """Whether statements are prepared by name. None means: if no pooler shares one session among several clients."""

    @classmethod
    def read(cls, url: str) -> Address:
        """Read a URL. `schema=`, `listen=` and `prepare=` are standfast's, everything else is libpq's."""
        parts = urlsplit(url)
        given = parse_qsl(parts.query, keep_blank_values=True)
        ours = dict(pair for pair in given if pair[0] in OURS)
        query = urlencode([pair for pair in given if pair[0] not in ours], safe="/:,")
        server = urlunsplit(parts._replace(query=query))
        schema = ours.get("schema", DEFAULT_SCHEMA)
        if not _NAME.fullmatch(schema):
            raise ConfigurationError(
                f"schema={schema!r} is not a name for a schema; use lower-case letters, digits and "
                "underscores, at most 63"
            )
        return cls(server, schema, ours.get("listen", server), _yes("prepare", ours.get("prepare")))

    def __str__(self) -> str:
        """Name the store without its password."""
        parts = urlsplit(self.server)
        user, at, host = parts.netloc.rpartition("@")
        shown = urlencode([pair for pair in parse_qsl(parts.query) if "password" not in pair[0]], safe="/:,")
        bare = parts._replace(netloc=user.partition(":")[0] + at + host, query=shown).geturl()
        return f"{bare} (schema {self.schema})"


def _yes(name: str, value: str | None) -> bool | None:
    if value not in {"yes", "no", None}:
        raise ConfigurationError(f"{name}={value!r} must be yes or no")
    return None if value is None else value == "yes"
