"""The allowed values of `TASKS[…]["OPTIONS"]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS

from standfast.errors import ConfigurationError

Enqueue = Literal["transaction", "on_commit", "immediate"]


class BackendOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of one backend, each with its default."""

    url: str | None = None
    """The store's address. None is `STANDFAST_URL`, else what standfast.toml says, else ./standfast.db."""
    app: str | None = None
    """Where your own Standfast object is, as `"shop.queue:sf"`, if the tasks shall share it with handlers of yours."""
    queues: dict[str, dict[str, Any]] = {}
    """Rules of queues: `{"mail": {"attempts": 3}}`."""
    database: str = DEFAULT_DB_ALIAS
    """The database of `DATABASES` whose transactions decide about tasks."""
    enqueue: Enqueue = "transaction"
    """How a task is enqueued while a transaction is open.

    `"transaction"` makes it part of the transaction where the database can do that, else it is `"on_commit"`: the task
    is enqueued once the transaction is committed. `"immediate"` enqueues it at once, also if the transaction is
    rolled back later.
    """


def read(alias: str, given: Mapping[str, Any]) -> BackendOptions:
    """Check the options in the settings."""
    where = f"TASKS[{alias!r}]['OPTIONS']"
    for name in given:
        if name not in BackendOptions.__struct_fields__:
            unknown = ConfigurationError.unknown("option", name, BackendOptions.__struct_fields__)
            raise ImproperlyConfigured(f"{where}: {unknown}")
    if given.get("enqueue", "transaction") not in get_args(Enqueue):
        unknown = ConfigurationError.unknown("value of 'enqueue'", given["enqueue"], get_args(Enqueue))
        raise ImproperlyConfigured(f"{where}: {unknown}")
    if given.get("url") is not None and given.get("app") is not None:
        raise ImproperlyConfigured(f"{where}: 'app' names an object that has its own store; leave 'url' out")
    rules = given.get("queues", {})  # rules may contain functions, which cannot be converted
    if not isinstance(rules, Mapping) or not all(isinstance(each, Mapping) for each in rules.values()):
        raise ImproperlyConfigured(f"{where}: 'queues' maps names to rules, as in {{'mail': {{'attempts': 3}}}}")
    try:
        options = msgspec.convert({**given, "queues": {}}, BackendOptions)
    except msgspec.ValidationError as error:
        raise ImproperlyConfigured(f"{where}: {error}") from error
    return msgspec.structs.replace(options, queues={name: dict(each) for name, each in rules.items()})
