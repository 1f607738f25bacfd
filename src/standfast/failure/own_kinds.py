"""Kinds of errors that an application declares (`sf.error_kinds`), in addition to those that standfast knows."""

from __future__ import annotations

from collections.abc import Mapping

from standfast.errors import ConfigurationError
from standfast.failure import Class, Landed
from standfast.failure.evidence import OWN_KINDS, Judgement, kind_name, known_kind

CLASSES = tuple(str(each) for each in Class)


def declare_kinds(kinds: Mapping[str, str]) -> None:
    """Make this process judge errors of these kinds by their class; all kinds are accepted, or none."""
    if not isinstance(kinds, Mapping):
        raise ConfigurationError(
            f'error_kinds takes kinds and their classes, such as {{"vault_locked": "transient"}}, not {kinds!r}'
        )
    OWN_KINDS.update({_checked_name(kind, cls): _judgement(kind, cls) for kind, cls in kinds.items()})


def _checked_name(kind: object, cls: str) -> str:
    name = kind_name(kind) if isinstance(kind, str) else ""
    if not name:
        raise ConfigurationError(f"an error kind is a name such as 'vault_locked', not {kind!r}")
    known = known_kind(name)
    if known is not None:
        raise ConfigurationError(f"standfast knows the error kind {kind!r}, as {known.cls}; name yours otherwise")
    other = OWN_KINDS.get(name)
    if other is not None and other.cls != cls:
        raise ConfigurationError(f"the error kind {kind!r} is declared as {other.cls} already, and now as {cls}")
    return name


def _judgement(kind: str, cls: object) -> Judgement:
    """Judge a kind as the catalogue judges its own: only a permanent failure certainly did nothing."""
    if cls not in CLASSES:
        raise ConfigurationError.unknown(f"class of the error kind {kind!r}", cls, CLASSES)
    found = Class(str(cls))
    return Judgement(found, Landed.NO if found is Class.PERMANENT else Landed.MAYBE, kind_name(kind))
