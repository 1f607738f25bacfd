"""Settings: what was passed, over the environment, over `standfast.toml`, over the default. Each knows its source."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from standfast.errors import ConfigurationError
from standfast.rules import QueueRules, queue_rules

DEFAULT_URL = "sqlite:///standfast.db"
DEFAULT_FILE = "standfast.toml"
TABLES = ("queues", "store")


class Setting(msgspec.Struct, frozen=True):
    """One value and where it came from: `argument`, `environment`, `file` or `default`."""

    value: Any
    source: str


class Settings(msgspec.Struct, frozen=True):
    """Everything in force for one process."""

    url: Setting
    config: Setting
    queues: dict[str, QueueRules]
    strict_queues: Setting


def load(url: str | None, environment: Mapping[str, str]) -> Settings:
    """Read the settings. A file named by `STANDFAST_CONFIG` must exist; the default one may be missing."""
    config = _first(None, environment.get("STANDFAST_CONFIG"), None, DEFAULT_FILE)
    tables = _read(Path(config.value), required=config.source != "default")
    store = tables.get("store", {})
    return Settings(
        url=_first(url, environment.get("STANDFAST_URL"), store.get("url"), DEFAULT_URL),
        config=config,
        queues={name: queue_rules(**given) for name, given in tables.get("queues", {}).items()},
        strict_queues=_first(None, None, store.get("strict_queues"), default=False),
    )


def _first(argument: Any, environment: Any, file: Any, default: Any) -> Setting:
    for value, source in ((argument, "argument"), (environment, "environment"), (file, "file")):
        if value is not None:
            return Setting(value, source)
    return Setting(default, "default")


def _read(path: Path, *, required: bool) -> dict[str, Any]:
    if not path.exists() and not required:
        return {}
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"cannot read {path}: {error}") from error
    unknown = sorted(set(tables) - set(TABLES))
    if unknown:
        raise ConfigurationError(f"{path}: unknown table [{unknown[0]}]; known are {', '.join(TABLES)}")
    return tables
