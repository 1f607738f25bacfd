"""Parse command-line values: durations, moments, labels, headers, names, payloads."""

from __future__ import annotations

import math
import os
import re
import sys
from datetime import datetime
from typing import Any

import click

from standfast.cli.applications import OPERATION_ID
from standfast.cli.group import Command
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
        raise click.BadParameter(f"{text!r} is not a length of time; write for example 90s, 15m, 2h or 7d")
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
        raise click.BadParameter(f"{text!r} is not a time; write for example 2026-12-24T18:00:00Z") from error
    if isinstance(found, datetime) and found.utcoffset() is None:
        raise click.BadParameter(
            f"{text!r} has no time zone; end it with Z for UTC, or use this machine's zone: "
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


def operation_id(command: Command) -> Command:
    """Let a command also take its job's id as `--operation-id`, the name that a Reply uses."""
    described = "The job, as a Reply names it; instead of ID."
    return click.option(
        "--operation-id", metavar="ID", help=described, expose_value=False, is_eager=True, callback=_keep_id
    )(command)


def job_id(command: Command) -> Command:
    """Add the job's id to a command, as an argument or as `--operation-id`."""
    return click.argument("job_id", metavar="ID", required=False, callback=one_id)(operation_id(command))


def _keep_id(context: click.Context, _parameter: click.Parameter, given: str | None) -> None:
    context.meta[OPERATION_ID] = given


def one_id(context: click.Context, parameter: click.Parameter, given: str | None) -> str:
    """Return the one job named, as an argument or as `--operation-id`."""
    named = [each for each in (given, context.meta.get(OPERATION_ID)) if each is not None]
    if not named:
        raise click.MissingParameter(ctx=context, param=parameter)
    if len(set(named)) > 1:
        raise click.UsageError("ID and --operation-id name two jobs; give one of them", context)
    return str(named[0])


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]?)(?:I?B)?", re.IGNORECASE)


def memory(text: str | int) -> int:
    """Read a size in bytes, such as `512M` or `1.5 GiB`: units are powers of 1024."""
    found = _SIZE.fullmatch(str(text).strip())
    size = int(float(found[1]) * _UNITS[found[2].upper()]) if found else 0
    if size <= 0:
        raise click.BadParameter(f"{text!r} is not a size; write for example 512M or 2G")
    return size


def number_of_processes(text: str | int) -> int:
    """Read a number of processes, or `auto`: one for each core that this process may use."""
    if text == "auto":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not str(text).isdecimal() or int(text) < 1:
        raise click.BadParameter(f"{text!r} is not a number of processes; write 1 or more, or auto")
    return int(text)


def names(text: str) -> list[str]:
    """Read names separated by commas."""
    return [name.strip() for name in text.split(",")]


def payload_from(text: str | None) -> Any:
    """Read a payload: JSON, `-` for standard input, nothing for none."""
    if text is None:
        return None
    return parse(sys.stdin.buffer.read() if text == "-" else text)
