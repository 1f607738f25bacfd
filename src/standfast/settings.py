"""Settings: arguments override the environment, then `standfast.toml`, then the default. Each knows its source."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from standfast.errors import ConfigurationError
from standfast.profiles import rules_for
from standfast.rules import QueueRules, ReplayMode, seconds

DEFAULT_URL = "sqlite:///standfast.db"
DEFAULT_FILE = "standfast.toml"
DEFAULT_POLICY = "standfast-policy.yaml"
LOGS = ("auto", "text", "json")
"""How log lines are written; `auto` means text on a terminal and JSON elsewhere."""
LOG_LEVELS = ("debug", "info", "warning", "error")
"""The lowest level at which a worker or server writes log lines, including the application's own."""
READERS = 500
"""How many live views one server process serves at once, unless the file says otherwise."""
SESSION_IDLE = 3600.0
"""Seconds without a request after which a browser is signed out, unless the file says otherwise."""
SESSION_LIFETIME = 12 * 3600.0
"""Seconds after which a browser must sign in again in any case, unless the file says otherwise."""
CONNECTIONS = 1000
"""How many connections one server process keeps open at once, unless the file says otherwise."""
CONNECTIONS_PER_ADDRESS = 250
"""How many connections that have shown no token may come from one address, unless the file says otherwise."""
APPROVAL_TTL = 86400.0
"""Seconds an approval waits for its answer, unless the file says otherwise."""
CONSENT_LIFETIME = 30 * 86400.0
"""The most seconds that a consent lasts, whatever its mode."""
REPLAY: ReplayMode = "replay"
"""What follows an unknown outcome, unless the handler, the file or the store says otherwise."""
KEEP_INBOX = 7 * 86400.0
"""Seconds a message is kept after it was read, unless the file says otherwise."""
SWITCH = {"": None, "1": True, "true": True, "on": True, "0": False, "false": False, "off": False}
"""How an environment variable says yes or no."""
TABLES = ("queues", "store", "server", "groups", "commands", "ingest", "notify", "redact")
"""The tables of `standfast.toml`, one for each field of `File`."""


_PASSWORD = re.compile(r"(?<=://)([^:/@]*):.*@|(?<=password=)[^&]*")


def without_password(url: str) -> str:
    """Return a URL without its password, fit to be shown."""
    return _PASSWORD.sub(lambda found: "***" if found[1] is None else f"{found[1]}:***@", url)


class Setting(msgspec.Struct, frozen=True):
    """One value and where it came from: `argument`, `environment`, `file`, `store`, `profile` or `default`."""

    value: Any
    source: str


class Settings(msgspec.Struct, frozen=True):
    """Everything in force for one process."""

    url: Setting
    config: Setting
    queues: dict[str, QueueRules]
    strict_queues: Setting
    spool: Setting
    audit_file: Setting
    approval_ttl: Setting
    """Seconds an approval waits for its answer."""
    policy: Setting
    log: Setting
    log_level: Setting
    written: dict[str, tuple[str, ...]]
    """Which rules of each queue the file names; the others are defaults."""
    groups: dict[str, tuple[str, ...]] | None = None
    """The groups of each person, if the file has `[groups]`: who may approve what."""
    hidden: tuple[str, ...] | None = None
    """The names whose values are hidden besides the usual ones, if the file has `[redact]`."""
    commands: dict[str, dict[str, Any]] = {}
    """The programs that queues may name with `command=`, as the file has them; `wings.commands.verbs` reads them."""
    notify: dict[str, Any] = {}
    """Where alerts go, as the file has it; `wings.alerts.surfaces` reads it."""
    keep_inbox: Setting = Setting(KEEP_INBOX, "default")
    """Seconds a session's message is kept after it was read."""
    consent_lifetime: Setting = Setting(CONSENT_LIFETIME, "default")
    """The most seconds that a consent lasts."""
    replay: Setting = Setting(REPLAY, "default")
    """What follows an unknown outcome, for handlers that do not say; if the file does not say either, the store may."""
    ingest: dict[str, dict[str, Any]] = {}
    """The sources whose webhooks become jobs, as the file has them; `wings.ingest.sources` reads them."""
    hosts: tuple[str, ...] = ()
    """The host names that the server answers to, besides loopback names and the address it listens at."""
    otel: Setting = Setting(value=False, source="default")
    """Whether every enqueue and attempt is traced with OpenTelemetry."""
    readers: int = READERS
    """How many live views one server process serves at once."""
    viewer_payloads: bool = True
    """Whether viewers are shown payloads and results, without their secrets."""
    elicitation: bool = True
    """Whether the user of an MCP client is asked for consent through that client."""
    metrics: Literal["token", "loopback"] = "token"
    """Who gets `/metrics`: callers with a token, or also callers on the server's own host."""

    session_idle: Setting = Setting(SESSION_IDLE, "default")
    """Seconds without a request after which a browser is signed out."""
    session_lifetime: Setting = Setting(SESSION_LIFETIME, "default")
    """Seconds after which a browser must sign in again in any case."""
    connections: int = CONNECTIONS
    """How many connections one server process keeps open at once."""
    connections_per_address: int = CONNECTIONS_PER_ADDRESS
    """How many connections that have shown no token may come from one address."""

    def over(self, queue: str, declared: QueueRules) -> QueueRules:
        """Override the rules that code declares for a queue with those in the file, rule by rule."""
        named = {rule: getattr(self.queues[queue], rule) for rule in self.written.get(queue, ())}
        return msgspec.structs.replace(declared, **named)

    def named(self) -> dict[str, dict[str, Any]]:
        """Return the rules that the file sets for each queue, as plain values."""
        queues = {queue: msgspec.to_builtins(rules) for queue, rules in self.queues.items()}
        return {queue: {rule: queues[queue][rule] for rule in self.written.get(queue, ())} for queue in queues}


class StoreTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[store]` of the file."""

    url: str | None = None
    strict_queues: bool | None = None
    spool: str | bool | None = None
    audit_file: str | None = None
    approval_ttl: float | str | None = None
    keep_inbox: float | str | None = None
    consent_lifetime: float | str | None = None
    replay: ReplayMode | None = None
    otel: bool | None = None


class ServerTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[server]` of the file."""

    hosts: tuple[str, ...] = ()
    readers: Annotated[int, msgspec.Meta(ge=0)] = READERS
    metrics: Literal["token", "loopback"] = "token"
    viewer_payloads: bool = True
    elicitation: bool = True
    session_idle: float | str | None = None
    session_lifetime: float | str | None = None
    connections: Annotated[int, msgspec.Meta(ge=1)] = CONNECTIONS
    connections_per_address: Annotated[int, msgspec.Meta(ge=1)] = CONNECTIONS_PER_ADDRESS


class RedactTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[redact]` of the file."""

    keys: tuple[str, ...] = ()


class File(msgspec.Struct, frozen=True):
    """What `standfast.toml` may hold."""

    queues: dict[str, dict[str, Any]] = {}
    store: StoreTable = StoreTable()
    server: ServerTable = ServerTable()
    groups: dict[str, list[str]] | None = None
    """Who is in which groups, besides those their tokens name."""
    redact: RedactTable | None = None
    commands: dict[str, dict[str, Any]] = {}
    ingest: dict[str, dict[str, Any]] = {}
    notify: dict[str, Any] = {}


def load(url: str | os.PathLike[str] | None, environment: Mapping[str, str]) -> Settings:
    """Read the settings. A file named by `STANDFAST_CONFIG` must exist; the default one may be missing."""
    config = _first(None, environment.get("STANDFAST_CONFIG"), None, DEFAULT_FILE)
    file = _read(Path(config.value), required=config.source != "default")
    return Settings(
        url=_first(_url(url), environment.get("STANDFAST_URL"), file.store.url, DEFAULT_URL),
        config=config,
        queues={name: _rules(config.value, name, given) for name, given in file.queues.items()},
        strict_queues=_first(None, None, file.store.strict_queues, default=False),
        spool=_spool(environment, file.store.spool),
        audit_file=_first(None, None, file.store.audit_file, None),
        approval_ttl=_lasting(config.value, "approval_ttl", file.store.approval_ttl, APPROVAL_TTL),
        keep_inbox=_lasting(config.value, "keep_inbox", file.store.keep_inbox, KEEP_INBOX),
        consent_lifetime=_lasting(config.value, "consent_lifetime", file.store.consent_lifetime, CONSENT_LIFETIME),
        replay=_first(None, None, file.store.replay, REPLAY),
        notify=file.notify,
        policy=_first(None, environment.get("STANDFAST_POLICY"), None, DEFAULT_POLICY),
        log=_one_of("STANDFAST_LOG", environment, LOGS, "auto"),
        log_level=_one_of("STANDFAST_LOG_LEVEL", environment, LOG_LEVELS, "info"),
        groups=None if file.groups is None else {person: tuple(groups) for person, groups in file.groups.items()},
        hidden=None if file.redact is None else file.redact.keys,
        viewer_payloads=file.server.viewer_payloads,
        commands=file.commands,
        ingest=file.ingest,
        hosts=file.server.hosts,
        otel=_otel(environment, file.store.otel),
        readers=file.server.readers,
        elicitation=file.server.elicitation,
        metrics=file.server.metrics,
        session_idle=_lasting(config.value, "session_idle", file.server.session_idle, SESSION_IDLE, "server"),
        session_lifetime=_lasting(
            config.value, "session_lifetime", file.server.session_lifetime, SESSION_LIFETIME, "server"
        ),
        connections=file.server.connections,
        connections_per_address=file.server.connections_per_address,
        written={name: tuple(given) for name, given in file.queues.items()},
    )


def _url(given: object) -> str | None:
    named = os.fspath(given) if isinstance(given, os.PathLike) else given
    if named is not None and not isinstance(named, str):
        raise ConfigurationError(f"the store is named by a URL or a path, not by {given!r}")
    return named


def _rules(path: str, name: str, given: dict[str, Any]) -> QueueRules:
    try:
        return rules_for(name, **given)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path} [queues.{name}]: {error}") from error


def _lasting(path: str, name: str, given: float | str | None, default: float, table: str = "store") -> Setting:
    """Read how long something lasts."""
    found = _first(None, None, given, default)
    try:
        read = seconds(found.value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path} [{table}] {name}: {error}") from error
    if read is None or not 0 < read < float("inf"):
        raise ConfigurationError(f"{path} [{table}] {name} must be more than 0 seconds, not {given!r}")
    return Setting(read, found.source)


def _one_of(variable: str, environment: Mapping[str, str], known: Sequence[str], default: str) -> Setting:
    """Read an environment variable that takes one of a few words."""
    found = _first(None, environment.get(variable, "").lower(), None, default)
    if found.value not in known:
        raise ConfigurationError(f"{variable}={environment[variable]!r} is unknown; known are {', '.join(known)}")
    return found


def _spool(environment: Mapping[str, str], written: str | bool | None) -> Setting:  # noqa: FBT001 - as the file has it
    """Read where jobs are spooled while a server is away: a file name, False for nowhere, None for the usual place."""
    value = environment.get("STANDFAST_SPOOL", "")
    found = _first(None, SWITCH.get(value.lower(), value), written, None)
    return Setting(None, found.source) if found.value is True else found


def _otel(environment: Mapping[str, str], written: bool | None) -> Setting:  # noqa: FBT001 - as the file has it
    """Read whether tracing is on; in the environment, `1` or `0`."""
    value = environment.get("STANDFAST_OTEL", "")
    if value.lower() not in SWITCH:
        known = ", ".join(word for word in SWITCH if word)
        raise ConfigurationError(f"STANDFAST_OTEL={value!r} is unknown; known are {known}")
    return _first(None, SWITCH[value.lower()], written, default=False)


def _first(argument: Any, environment: Any, file: Any, default: Any) -> Setting:
    for value, source in ((argument, "argument"), (environment, "environment"), (file, "file")):
        if value not in (None, ""):
            return Setting(value, source)
    return Setting(default, "default")


def _read(path: Path, *, required: bool) -> File:
    if not path.exists() and not required:
        return File()
    try:
        import tomllib  # noqa: PLC0415 - few directories have such a file

        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        raise ConfigurationError(f"cannot read {path}: {error}") from error
    unknown = sorted(set(tables) - set(TABLES))
    if unknown:
        raise ConfigurationError(f"{path}: unknown table [{unknown[0]}]; known are {', '.join(TABLES)}")
    _check_replay(path, tables.get("store"))
    try:
        return msgspec.convert(tables, File)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def _check_replay(path: Path, store: object) -> None:
    """Refuse an unknown mode with an error that names the known ones."""
    given = store.get("replay") if isinstance(store, dict) else None
    if given is not None and given not in get_args(ReplayMode):
        known = ", ".join(f'"{mode}"' for mode in get_args(ReplayMode))
        raise ConfigurationError(f"{path}: [store] replay is {given!r}; write one of {known}")
