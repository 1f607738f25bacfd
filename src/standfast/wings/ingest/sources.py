"""The sources of webhooks: `[ingest.NAME]` of the settings file, with the secrets from their environment variables.

A source without a secret accepts nothing, unless it has `unsigned = true`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from standfast.errors import ConfigurationError
from standfast.rules import TRIGGER_PRIORITIES, Coalesce
from standfast.wings.ingest.paths import is_path, parts

GITHUB = "github"
LARGEST = 1 << 20
"""The most bytes of a delivery, unless its source says otherwise."""
LARGEST_OF_GITHUB = 25 << 20
"""The most that GitHub sends."""
Signature = Literal["standard-webhooks", "hmac-sha256", "bearer"]
USUAL: dict[str, Signature] = {"standard-webhooks": "standard-webhooks", "cloudevents": "bearer", "json": "hmac-sha256"}
"""How each kind is signed, unless its source says otherwise."""


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of any `[ingest.NAME]`."""

    secret_env: str | list[str] = []
    """The variables with the secrets, all of them in force; NAME_FILE names a file with the secret of NAME."""
    unsigned: bool = False
    """Whether deliveries are accepted from any sender."""
    coalesce: Coalesce | None = None
    """What happens if a job of its thread already waits, instead of the queue's rule."""
    max_body: int | None = None
    """The most bytes of a delivery."""


class GithubTable(Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of `[ingest.github]`."""

    queue: str = "github"
    login: str | list[str] = []
    """The logins whose @-mentions count, and whose own actions do not."""
    triggers: dict[str, int | bool] = {}
    """The priority of a trigger, if it is not the usual one; false ignores the trigger."""


class MappedTable(Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of any other `[ingest.NAME]`. A text that begins with `$` is a path into the body."""

    kind: Literal["standard-webhooks", "cloudevents", "json"]
    queue: str
    queues: list[str] = []
    """The queues that a path may name; others are refused."""
    handler: str | None = None
    priority: int | str | None = None
    thread_key: str | None = None
    payload: str | dict[str, str] = "$"
    idempotency_key: str | None = None
    """Where the key of a delivery is, for `json`; the other kinds have one by their standard."""
    labels: dict[str, str] = {}
    signature: Signature | None = None
    signature_header: str | None = None


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One source, ready for use: its table, and its secrets."""

    name: str
    table: GithubTable | MappedTable
    secrets: tuple[str, ...]

    @property
    def largest(self) -> int:
        """The most bytes of a delivery."""
        usual = LARGEST_OF_GITHUB if self.name == GITHUB else LARGEST
        return usual if self.table.max_body is None else self.table.max_body


def source(name: str, tables: Mapping[str, Mapping[str, Any]], environment: Mapping[str, str]) -> Source | None:
    """Return a source by its name, with its secrets; None if there is none."""
    if name not in tables:
        return None
    table = _read(name, tables[name])
    secrets = _secrets(name, table, environment)
    return Source(name=name, table=table, secrets=secrets)


def by_hand(name: str, tables: Mapping[str, Mapping[str, Any]]) -> Source | None:
    """Return a source that accepts unsigned deliveries: the caller of a command line could enqueue anyway."""
    if name not in tables and name != GITHUB:
        return None
    return Source(name=name, table=_read(name, tables.get(name, {})), secrets=())


def _read(name: str, given: Mapping[str, Any]) -> GithubTable | MappedTable:
    kind: type[GithubTable | MappedTable] = GithubTable if name == GITHUB else MappedTable
    try:
        unknown = sorted(set(given) - set(kind.__struct_fields__))
        if unknown:
            raise ConfigurationError.unknown("setting", unknown[0], kind.__struct_fields__)
        table = msgspec.convert(dict(given), kind)
        if isinstance(table, GithubTable):
            _check_triggers(table)
        else:
            _check_mapping(table)
    except (msgspec.ValidationError, ConfigurationError) as error:
        raise ConfigurationError(f"[ingest.{name}]: {error}") from error
    return table


def _check_triggers(table: GithubTable) -> None:
    for trigger, priority in table.triggers.items():
        if trigger not in TRIGGER_PRIORITIES:
            raise ConfigurationError.unknown("trigger", trigger, TRIGGER_PRIORITIES)
        if priority is True:
            raise ConfigurationError(f"trigger {trigger} takes a priority, or false to ignore it")


def _check_mapping(table: MappedTable) -> None:
    fields = table.payload.values() if isinstance(table.payload, dict) else [table.payload]
    for path in fields:
        if not is_path(path):
            raise ConfigurationError(f"payload takes paths into the body, such as $.data, not {path!r}")
    given = (*fields, table.queue, table.priority, table.thread_key, table.idempotency_key, *table.labels.values())
    for value in given:
        if isinstance(value, str) and is_path(value):
            parts(value)
    if isinstance(table.priority, str) and not is_path(table.priority):
        raise ConfigurationError(f"priority takes a number or a path, not {table.priority!r}")
    if is_path(table.queue) and not table.queues:
        raise ConfigurationError("queue is a path into the body, so queues must list the allowed names")
    if table.idempotency_key is not None and table.kind != "json":
        raise ConfigurationError(f"{table.kind} already has a key; idempotency_key is for kind = 'json'")


def _secrets(name: str, table: Table, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Find the secrets in the environment; a missing one is refused, and so is having none at all."""
    variables = [table.secret_env] if isinstance(table.secret_env, str) else table.secret_env
    if table.unsigned:
        if variables:
            raise ConfigurationError(f"[ingest.{name}]: unsigned = true and secret_env exclude each other")
        return ()
    if not variables:
        raise ConfigurationError(
            f"[ingest.{name}] has no secret, so it accepts nothing: name the variable that holds it with secret_env, "
            "or write unsigned = true if any sender may use it"
        )
    return tuple(_secret(name, variable, environment) for variable in variables)


def _secret(name: str, variable: str, environment: Mapping[str, str]) -> str:
    found = environment.get(variable, "").strip() or _from_file(name, variable, environment)
    if not found:
        raise ConfigurationError(
            f"[ingest.{name}]: the secret in ${variable} is missing; set it, or let ${variable}_FILE name its file"
        )
    return found


def _from_file(name: str, variable: str, environment: Mapping[str, str]) -> str:
    path = environment.get(f"{variable}_FILE")
    if not path:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"[ingest.{name}]: ${variable}_FILE cannot be read: {error}") from error
