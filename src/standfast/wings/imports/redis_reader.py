"""Letters in Redis: a list of JSON texts, or an index of names with a key for each letter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec

from standfast.errors import ConfigurationError, StandfastError
from standfast.settings import without_password
from standfast.wings.imports.jsonl_reader import jsonl, read_line
from standfast.wings.imports.words import BadRecord, Record, Source

Redis = Any
"""A client of the redis package, which is an extra."""
LIST = "dlq:index"
ENTRY = "dlq:entry:"
SLICE = 500
TIMEOUT = 10.0


class ListChanged(StandfastError):
    """The list changed while it was read, so that a letter's place no longer identifies it."""


def redis(address: str, name: str = LIST, entry: str = ENTRY) -> Source:
    """Return a list in Redis as a source. If it holds names, each letter is at the key `entry` plus its name."""
    _library()
    shown = f"{without_password(address)} {name}"
    server = urlsplit(address)
    return Source(
        kind="redis",
        name=f"{server.hostname}:{server.port or 6379}{server.path} {name}",
        shown=shown,
        read=partial(_records, address, name, entry),
        count=partial(_count, address, name),
        rejects=f"{re.sub(r'[^A-Za-z0-9.-]+', '_', name)}.rejects.jsonl",
    )


def dump(path: str) -> Source:
    """Return the output of `redis-cli --raw LRANGE NAME 0 -1` as a source: a file with a letter on each line."""
    return msgspec.structs.replace(jsonl(path), kind="redis")


def _library() -> Any:
    try:
        import redis as library  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "reading from Redis needs the redis package: pip install 'standfast[redis]', or dump the list with "
            "redis-cli --raw LRANGE NAME 0 -1 > FILE and give that with --file FILE"
        ) from error
    return library


def _connected(address: str) -> Redis:
    library = _library()
    try:
        return library.Redis.from_url(address, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT)
    except ValueError as error:
        raise ConfigurationError(f"{without_password(address)!r} is not an address of Redis: {error}") from error


def _records(address: str, name: str, entry: str) -> Iterator[Record | BadRecord]:
    library = _library()
    try:
        with _connected(address) as client:
            for number, element in enumerate(_elements(client, name), start=1):
                yield _record(client, number, element, entry)
    except library.RedisError as error:
        raise ConfigurationError(f"cannot read {name!r} from {without_password(address)}: {error}") from error


def _record(client: Redis, number: int, element: bytes, entry: str) -> Record | BadRecord:
    """Read one element: the letter itself, or the name of its key."""
    place = f"element {number}"
    if element.lstrip()[:1] in (b"{", b"["):
        return read_line(number, place, element)
    letter = client.get(entry.encode() + element)
    if letter is None:
        shown = element.decode("utf-8", "replace")
        return BadRecord(
            number, place, shown, f"it is no JSON, and no key {entry}{shown} is there; it may have expired"
        )
    return read_line(number, place, letter)


def _elements(client: Redis, name: str) -> Iterator[bytes]:
    kind = client.type(name)
    match kind:
        case b"list":
            yield from _of_list(client, name)
        case b"zset":
            yield from client.zrange(name, 0, -1)
        case b"set":
            yield from sorted(client.smembers(name))
        case b"none":
            raise ConfigurationError(f"there is no key {name!r} in this Redis; name the list with --list NAME")
        case _:
            raise ConfigurationError(f"{name!r} is a {kind.decode()}, not a list; name the list with --list NAME")


def _of_list(client: Redis, name: str) -> Iterator[bytes]:
    """Read a list from its head. Each slice is read with the list's length, so that a list that moved is noticed."""
    first, length = 0, None
    while True:
        pipeline = client.pipeline(transaction=True)
        pipeline.llen(name)
        pipeline.lrange(name, first, first + SLICE - 1)
        now, elements = pipeline.execute()
        if length is not None and now != length:
            raise ListChanged(
                f"the list {name!r} changed while it was read, from {length} to {now} elements; the letters read "
                "before that are imported; stop its writers and run the import again: each letter is imported once"
            )
        length = now
        yield from elements
        first += SLICE
        if first >= length:
            return


def _count(address: str, name: str) -> int | None:
    client = _connected(address)
    with client:
        try:
            return int(client.llen(name))
        except _library().RedisError:  # no list, or no server: the reading reports it better
            return None
