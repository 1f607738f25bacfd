"""Reads values from a document; a value that its key does not take is refused with its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from standfast.errors import ConfigurationError
from standfast.failure import known_code
from standfast.job import RISKS
from standfast.rules import seconds
from standfast.wings.policy.document import Items, Mapping, Node, Scalar, quoted
from standfast.wings.policy.match import OPERATORS, Bound, Range

LONGEST_TEXT = 500
MOST_DIGITS = 15
LONGEST_TIME = 1e10
"""Some three hundred years: more must be a typo."""

_NO_TEXT = re.compile(
    r"~|null|Null|NULL|true|True|TRUE|false|False|FALSE|"
    r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+|"
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
"""What YAML 1.2 does not read as text, unless it is in quotes."""
_WHOLE = re.compile(rf"[0-9]{{1,{MOST_DIGITS}}}")
_NUMBER = re.compile(rf"[0-9]{{1,{MOST_DIGITS}}}(?:\.[0-9]{{1,{MOST_DIGITS}}})?")
_BOUND = re.compile(r"\s*(>=|<=|>|<|=)\s*(\S(?:.*\S)?)\s*")

Value = TypeVar("Value")
Read = Callable[[Node, str], Value]
"""Reads the value of a key; the key is for the message."""


def mapping(node: Node, what: str, allowed: Sequence[str]) -> Mapping:
    """Expect a map with only these keys."""
    if not isinstance(node, Mapping):
        raise node.place.refusal(f"{what} must be a map; allowed keys are {', '.join(allowed)}")
    for key, scalar in node.keys.items():
        if key not in allowed:
            raise scalar.place.refusal(_unknown(f"key {quoted(key)} in {what}", key, allowed))
    return node


def needed(of: Mapping, key: str, what: str) -> Node:
    """Expect a key to exist."""
    if key not in of.values:
        raise of.place.refusal(f"{what} needs the key '{key}'")
    return of.values[key]


def items(node: Node, what: str) -> list[Node]:
    """Expect a list."""
    if not isinstance(node, Items):
        raise node.place.refusal(f"{what} must be a list")
    return node.items


def text(node: Node, key: str) -> str:
    """Expect a text that is not empty."""
    if not isinstance(node, Scalar):
        raise node.place.refusal(f"{key} must be a text")
    if not node.text.strip():
        raise node.place.refusal(f"{key} has no value")
    if node.plain and _NO_TEXT.fullmatch(node.text):
        raise node.place.refusal(f'{key} must be a text; put it in quotes: "{node.text[:LONGEST_TEXT]}"')
    if len(node.text) > LONGEST_TEXT:
        raise node.place.refusal(f"{key} has {len(node.text)} characters where {LONGEST_TEXT} are allowed")
    return node.text


def reason_code(node: Node, key: str) -> str:
    """Expect a reason code; translate another system's name for one of ours."""
    return known_code(text(node, key))


def one_of(words: Sequence[str], also: str | None = None) -> Read[str]:
    """Expect one of these words; `also` names what else the key takes, for the message."""

    def read(node: Node, key: str) -> str:
        if not isinstance(node, Scalar) or node.text not in words:
            given = quoted(node.text) if isinstance(node, Scalar) else "a list or a map"
            near = node.text if isinstance(node, Scalar) else ""
            raise node.place.refusal(_unknown(f"{key} {given}", near, words) + (f", {also}" if also else ""))
        return node.text

    return read


def whole(least: int, most: int) -> Read[int]:
    """Expect a whole number."""

    def read(node: Node, key: str) -> int:
        number = _plain_whole(node)
        if number is None or not least <= number <= most:
            raise node.place.refusal(f"{key} must be a whole number from {least} to {most}, without quotes")
        return number

    return read


def duration(node: Node, key: str) -> float:
    """Expect a time: seconds as a number, or a text such as 90s, 15m, 2h, 7d."""
    return _seconds(node, key, node.text if isinstance(node, Scalar) else "")


def any_of(read: Read[Value]) -> Read[tuple[Value, ...]]:
    """Accept one value, or a list of them of which any may fit."""

    def read_any(node: Node, key: str) -> tuple[Value, ...]:
        if not isinstance(node, Items):
            return (read(node, key),)
        if not node.items:
            raise node.place.refusal(f"{key} is an empty list, which matches nothing; name a value or leave {key} out")
        return tuple(read(item, key) for item in node.items)

    return read_any


def count_range(node: Node, key: str) -> Range:
    """Expect a whole number, or comparisons with numbers, such as ">= 3" or ">= 3, < 10"."""
    number = _plain_whole(node)
    if number is not None:
        return (Bound("=", number),)
    return _bounds(node, key, _count, 'a whole number, or a comparison in quotes such as ">= 3" or ">= 3, < 10"')


def age_range(node: Node, key: str) -> Range:
    """Expect comparisons with a time, such as "> 2h"."""
    return _bounds(node, key, _seconds, 'a comparison in quotes such as "> 2h" or "> 1d, < 7d"')


def risk_range(node: Node, key: str) -> Range:
    """Expect a risk, or comparisons with one, such as ">= high"."""
    if isinstance(node, Scalar) and not _BOUND.fullmatch(node.text):
        return (Bound("=", RISKS.index(one_of(RISKS)(node, key))),)
    return _bounds(node, key, _rank, 'a risk, or a comparison in quotes such as ">= high"')


def _bounds(node: Node, key: str, operand: Callable[[Node, str, str], float], takes: str) -> Range:
    found = [_BOUND.fullmatch(part) for part in node.text.split(",")] if isinstance(node, Scalar) else [None]
    bounds = [Bound(each[1], operand(node, key, each[2])) for each in found if each and each[1] in OPERATORS]
    if len(bounds) < len(found):
        raise node.place.refusal(f"{key} takes {takes}")
    return tuple(bounds)


def _count(node: Node, key: str, operand: str) -> float:
    if not _WHOLE.fullmatch(operand):
        raise node.place.refusal(f"{key} is compared with whole numbers, not with {quoted(operand)}")
    return int(operand)


def _rank(node: Node, key: str, operand: str) -> float:
    if operand not in RISKS:
        raise node.place.refusal(_unknown(f"{key} {quoted(operand)}", operand, RISKS))
    return RISKS.index(operand)


def _seconds(node: Node, key: str, operand: str) -> float:
    try:
        value = seconds(float(operand) if _NUMBER.fullmatch(operand) else operand[:LONGEST_TEXT])
    except ConfigurationError:
        value = None
    if value is None or value > LONGEST_TIME:
        raise node.place.refusal(
            f"{key}: {quoted(operand)} is not a time; write seconds, or for example 90s, 15m, 2h, 7d"
        )
    return float(value)


def _plain_whole(node: Node) -> int | None:
    return int(node.text) if isinstance(node, Scalar) and node.plain and _WHOLE.fullmatch(node.text) else None


def _unknown(what: str, given: str, words: Sequence[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only for a word that is wrong

    near = get_close_matches(given[:LONGEST_TEXT], words, n=1)
    suggestion = f" (did you mean '{near[0]}'?)" if near else ""
    return f"unknown {what}{suggestion}; allowed are {', '.join(words)}"
