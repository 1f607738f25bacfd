"""What is written on the command line, read: durations, moments, labels, headers, names, payloads."""

from __future__ import annotations

import math
import sys
from datetime import datetime
from typing import Any

import click

from standfast.errors import ConfigurationError
from standfast.rules import seconds
from standfast.spine.payload import parse


def duration(text: str | float) -> float:
    """Read seconds, or text such as `90s` or `1h 30m`."""
    try:
        span = float(text)
    except ValueError:
        span = _parse_words(str(text))
    if not 0 <= span < math.inf:
        raise click.BadParameter(f"{text} is no length of time")
    return span


def _parse_words(text: str) -> float:
    try:
        return seconds(text) or 0.0
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error


def moment(text: str) -> datetime | float:
    """Read an RFC 3339 time, or seconds since 1970."""
    try:
        found = float(text) if text.replace(".", "", 1).isdigit() else datetime.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no time; write for example 2026-12-24T18:00:00Z") from error
    if isinstance(found, datetime) and found.utcoffset() is None:
        raise click.BadParameter(
            f"{text!r} names no time zone; end it with Z for UTC, or with this machine's: "
            f"{found.astimezone().isoformat()}"
        )
    return found


def label(text: str) -> tuple[str, str]:
    """Read `name=value`."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not name=value")
    return name, value


def header(text: str) -> tuple[str, str]:
    """Read `Name: value`."""
    name, colon, value = text.partition(":")
    if not name.strip() or not colon:
        raise click.BadParameter(f"{text!r} is not 'Name: value'")
    return name.strip(), value.strip()


def names(text: str) -> list[str]:
    """Read names with commas between them."""
    return [name.strip() for name in text.split(",")]


def payload_from(text: str | None) -> Any:
    """Read a payload: JSON, `-` for standard input, nothing for none."""
    if text is None:
        return None
    return parse(sys.stdin.buffer.read() if text == "-" else text)
