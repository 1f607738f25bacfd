"""A `[commands.NAME]`: a program, and how it is run for a job. Its arguments are templates, filled without a shell.

A value of a payload is one argument or a part of one, never more, and never the program. A value that begins with `-`
would be read as an option: it is refused, unless it stands directly behind a `--` that the configuration wrote.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from standfast.errors import ConfigurationError
from standfast.rules import ReplayMode, seconds
from standfast.wings.effects.templates import CannotTell

Ending = Literal["completed", "transient", "permanent", "uncertain", "snooze"]
OTHER = "other"
"""The key in `exit_codes` for every code that it does not name."""
KNOWN_CODES: dict[str, str] = {"0": "completed", "75": "transient", OTHER: "uncertain"}
"""What exit codes mean unless configured otherwise; 75 is what `sysexits.h` calls a temporary failure."""
HIGHEST_CODE = 255
SNOOZE = 60.0
"""Seconds a snooze lasts, unless it says how long."""
LARGEST_OUTPUT = 256 << 10
LONGEST_GRACE = 4.0
"""Seconds between asking a program to end and killing it: a worker that stops waits for five."""
SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OURS = "STANDFAST_"
"""The prefix of our own variables."""

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_KNOWN = re.compile(r"job\.id|payload(?:\.[^.{}]+)*")
_INTERPRETER = re.compile(r"(?:.*/)?(?:(?:ba|da|z|k|a|fi|c|tc)?sh|su|runuser|(?:python|perl|ruby|node|php|lua)[\d.]*)")
_CODE_FOLLOWS = re.compile(r"-\w*[cer]|--command|--eval|--execute")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program and how it is run."""

    argv: tuple[str, ...]
    """The program and its arguments; `{payload.unit}` takes a value from the payload, `{job.id}` the job's id."""
    env: tuple[str, ...] = ()
    """Its environment: `NAME` as the worker has it, or `NAME=value`. Everything else is left out."""
    cwd: str | None = None
    """The directory it runs in; by default the worker's."""
    timeout: float | str | None = None
    """How long it may take; by default what its queue says."""
    stdin: Literal["nothing", "payload"] = "nothing"
    """Whether it gets the payload, as JSON, on standard input."""
    exit_codes: dict[str, str] = {}
    """What its exit codes mean; see KNOWN_CODES."""
    postcondition: tuple[str, ...] = ()
    """A program that checks whether the effect is there: exit code 0 means yes."""
    postcondition_absent: tuple[int, ...] = (1,)
    """The exit codes that mean no; any other code decides nothing."""
    postcondition_timeout: float | str = 10.0
    """How long this check may take."""
    output_cap: int = 16 << 10
    """How many bytes of each output are kept, from its end; 0 keeps nothing."""
    grace: float | str = 3.0
    """How long after SIGTERM its process group is killed."""
    replay: ReplayMode = "verify_first"
    """What follows an unknown outcome: a look (or a person, if none is possible), a repeat, or a person."""

    def __post_init__(self) -> None:
        """Refuse settings that could not work."""
        _check_template("argv", self.argv)
        if self.postcondition:
            _check_template("postcondition", self.postcondition)
        for variable in self.env:
            _check_variable(variable)
        for code, ending in self.exit_codes.items():
            _check_code(code)
            ending_of(ending)
        if not 0 <= self.output_cap <= LARGEST_OUTPUT:
            raise ConfigurationError(f"output_cap must be from 0 to {LARGEST_OUTPUT} bytes, not {self.output_cap}")
        if not 0 <= _span("grace", self.grace) <= LONGEST_GRACE:
            raise ConfigurationError(
                f"grace must be from 0 to {LONGEST_GRACE:g} seconds, because a worker that stops does not wait longer"
            )
        if self.timeout is not None and not _span("timeout", self.timeout) > 0:
            raise ConfigurationError(f"timeout must be more than 0 seconds, not {self.timeout!r}")
        if not _span("postcondition_timeout", self.postcondition_timeout) > 0:
            raise ConfigurationError("postcondition_timeout must be more than 0 seconds")

    @property
    def seconds(self) -> float | None:
        """How long it may take."""
        return None if self.timeout is None else _span("timeout", self.timeout)

    @property
    def patience(self) -> float:
        """How long its process group has to end after SIGTERM."""
        return _span("grace", self.grace)

    @property
    def looking(self) -> float:
        """How long the postcondition may take."""
        return _span("postcondition_timeout", self.postcondition_timeout)

    def ending(self, code: int) -> tuple[Ending, float]:
        """Return what an exit code means, and how long a snooze lasts. Death by a signal is below zero, and `other`."""
        known = {**KNOWN_CODES, **self.exit_codes}
        return ending_of(known.get(str(code), known[OTHER]))

    def environment(self, ours: Mapping[str, str], worker: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return its environment: a search path, a locale, what is asked for, and the variables that name its job."""
        found = {"PATH": SEARCHED, "LANG": "C.UTF-8"}
        for variable in self.env:
            name, equals, value = variable.partition("=")
            if equals:
                found[name] = value
            elif name in worker:
                found[name] = worker[name]
        return {**found, **ours}


def read(name: str, given: dict[str, Any]) -> Command:
    """Read a `[commands.NAME]` of the settings file."""
    unknown = sorted(set(given) - set(Command.__struct_fields__))
    try:
        if unknown:
            raise ConfigurationError.unknown("setting", unknown[0], Command.__struct_fields__)
        return msgspec.convert(given, Command)
    except (msgspec.ValidationError, ConfigurationError) as error:
        raise ConfigurationError(f"[commands.{name}]: {error}") from error


def filled(template: Sequence[str], payload: Any, job_id: str) -> list[str]:
    """Fill a template for a payload; raise ValueError if the payload does not fit it."""
    found: list[str] = []
    open_to_all = False  # directly behind `--`
    for argument in template:
        places = _places(argument)
        text = _PIECE.sub(lambda piece: _value(piece, payload, job_id), argument)
        if places and not open_to_all:
            _check_no_option(argument, text)
        found.append(text)
        open_to_all = argument == "--" or (open_to_all and bool(places))
    return found


def _value(piece: re.Match[str], payload: Any, job_id: str) -> str:
    place = piece.group(1)
    if place is None:
        return piece.group()[0]
    if place == "job.id":
        return job_id
    value = payload
    for name in place.split(".")[1:]:
        value = _inside(place, value, name)
    return _text(place, value)


def _inside(place: str, value: Any, name: str) -> Any:
    if isinstance(value, dict) and name in value:
        return value[name]
    if isinstance(value, list) and name.isdecimal() and name.isascii() and int(name) < len(value):
        return value[int(name)]
    raise CannotTell(f"it has no {{{place}}}")


def _text(place: str, value: Any) -> str:
    """Format a value as an argument: text as it is, numbers and booleans as JSON writes them."""
    if isinstance(value, str):
        if "\0" in value:
            raise CannotTell(f"{{{place}}} contains a NUL character, which no argument may contain")
        return value
    if isinstance(value, bool | int | float):
        return msgspec.json.encode(value).decode()
    raise CannotTell(f"{{{place}}} is neither text nor a number")


def _check_no_option(argument: str, text: str) -> None:
    """Refuse a value that would be read as an option, unless the configuration itself begins the argument with `-`."""
    if text.startswith("-") and not argument.startswith("-"):
        raise CannotTell(
            f"{argument} begins with '-' and would be read as an option; write '--' directly before it in the "
            "command's argv if the program takes that"
        )


def _check_template(what: str, template: tuple[str, ...]) -> None:
    if not template or not template[0]:
        raise ConfigurationError(f'{what} must name a program, as ["systemd-run", "--wait", "{{payload.unit}}"]')
    for argument in template:
        if "\0" in argument:
            raise ConfigurationError(f"{what} contains a NUL character, which no argument may contain")
        for piece in _PIECE.finditer(argument):
            place = piece.group(1)
            if piece.group() in "{}" or (place is not None and not _KNOWN.fullmatch(place)):
                raise ConfigurationError(
                    f"{what} has {piece.group()!r} in {argument!r}; known are {{payload.name}} and {{job.id}}; "
                    "write {{ and }} for braces"
                )
    if _places(template[0]):
        raise ConfigurationError(f"{what} must name its program itself; {template[0]!r} leaves it to the payload")
    _check_no_code(what, template)


def _check_no_code(what: str, template: tuple[str, ...]) -> None:
    """Refuse a placeholder inside a program's text: the payload would become part of that program."""
    for at, argument in enumerate(template):
        interprets = any(_INTERPRETER.fullmatch(each) for each in template[:at])
        if at and interprets and _places(argument) and _CODE_FOLLOWS.fullmatch(template[at - 1]):
            raise ConfigurationError(
                f"{what}: what the payload gives to {argument!r} would be run as code; hand it over as an argument of "
                'its own, as in ["sh", "-c", "echo \\"$1\\"", "sh", "{payload.name}"]'
            )


def _places(argument: str) -> list[str]:
    return [piece.group(1) for piece in _PIECE.finditer(argument) if piece.group(1)]


def _check_variable(variable: str) -> None:
    name = variable.partition("=")[0]
    if not _VARIABLE.fullmatch(name) or "\0" in variable:
        raise ConfigurationError(f"env cannot name {variable!r}; write NAME to pass it on, or NAME=value")
    if name.startswith(OURS):
        raise ConfigurationError(f"env cannot set {name}: names that begin with {OURS} are standfast's own")


def _check_code(code: str) -> None:
    if code not in {OTHER, *map(str, range(HIGHEST_CODE + 1))}:
        raise ConfigurationError(f"exit_codes cannot name {code!r}; write 0 to {HIGHEST_CODE}, or {OTHER!r}")


def ending_of(word: str) -> tuple[Ending, float]:
    """Read what an exit code means: a word, or `snooze 5m`."""
    kind, _, span = word.partition(" ")
    wait = seconds(span) if span and kind == "snooze" else SNOOZE
    known: dict[str, Ending] = {each: each for each in ("completed", "transient", "permanent", "uncertain", "snooze")}
    if kind not in known or (span and kind != "snooze"):
        raise ConfigurationError.unknown("meaning of an exit code", word, [*known, "snooze 5m"])
    return known[kind], wait or 0.0


def _span(what: str, value: float | str) -> float:
    span = seconds(value)
    if not isinstance(span, int | float) or isinstance(span, bool) or span != span:  # noqa: PLR0124 - NaN
        raise ConfigurationError(f"{what} must be a length of time, not {value!r}")
    return float(span)
