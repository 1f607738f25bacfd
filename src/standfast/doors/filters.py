"""Filters as Structs: a field says once what it filters by; query parameters, options and forms are made from it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import msgspec
from msgspec import Meta

from standfast.errors import ConfigurationError

_KEY = "standfast.filter"
PATHS = "payload."
FLAG = ("true", "false")


class Described(NamedTuple):
    """What a field of a filter means, beyond its type."""

    help: str
    """What the command line says about it."""
    title: str | None = None
    """What a form calls it; forms keep a field without a title, but do not ask for it."""
    choices: tuple[str, ...] = ()
    example: str | None = None
    """An example of what to type, if that is not obvious."""
    is_duration: bool = False
    is_moment: bool = False
    is_search: bool = False
    """Whether a form asks for it first, because most people search by it."""
    is_flag: bool = False
    """Whether it is true or false: an option without a value, or two choices in a form."""


class FilterField(NamedTuple):
    """One field of a filter: its name at every door, and its attribute of the Struct."""

    name: str
    attribute: str
    about: Described


class Filter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Filters by its described fields. It may have other fields, such as a page's limit."""

    def chosen(self) -> dict[str, Any]:
        """Return the fields that are set, by the names that the queue knows."""
        found = {field.name: getattr(self, field.attribute) for field in fields_of(type(self))}
        return {name: value for name, value in found.items() if value is not None}


def described(
    about: str,
    title: str | None = None,
    *,
    choices: tuple[str, ...] = (),
    example: str | None = None,
    is_duration: bool = False,
    is_moment: bool = False,
    is_search: bool = False,
    is_flag: bool = False,
) -> Meta:
    """Describe a field; the API's document shows its type, its help and its example."""
    known = FLAG if is_flag else choices
    return Meta(extra={_KEY: Described(about, title, known, example, is_duration, is_moment, is_search, is_flag)})


@cache
def fields_of(shape: type[msgspec.Struct]) -> tuple[FilterField, ...]:
    """Return the described fields of a filter."""
    found = ((each, _described(each.type)) for each in msgspec.structs.fields(shape))
    return tuple(FilterField(each.encode_name, each.name, about) for each, about in found if about is not None)


def names_of(shape: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the names of a filter's fields."""
    return tuple(field.name for field in fields_of(shape))


def with_paths(named: dict[str, str], shape: type[msgspec.Struct]) -> dict[str, str]:
    """Return the parameters of a query, with `payload.PATH=VALUE` turned into the field `payload`: `PATH=VALUE`."""
    paths = [name for name in named if name.startswith(PATHS)]
    if not paths or "payload" not in names_of(shape):
        return named
    if len(paths) > 1 or "payload" in named:
        raise ConfigurationError("a filter names one path into the payload, not several")
    rest = {name: value for name, value in named.items() if name != paths[0]}
    return {**rest, "payload": f"{paths[0].removeprefix(PATHS)}={named[paths[0]]}"}


def _described(type_: Any) -> Described | None:
    return next((meta.extra[_KEY] for meta in _metas(type_) if meta.extra and _KEY in meta.extra), None)


def _metas(type_: Any) -> Iterator[Meta]:
    """Yield the annotations of a type, or of the members of a union."""
    if get_origin(type_) is Annotated:
        yield from (each for each in get_args(type_)[1:] if isinstance(each, Meta))
    else:
        for member in get_args(type_):
            yield from _metas(member)
