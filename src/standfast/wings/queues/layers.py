"""The rules of a queue in layers: those that a settings file names, over those that code declares, over the defaults.

The store keeps the layers with the rules in force, so that a process that has only a file can put its few rules over
those of another process's code, and so that a rule removed from the file is the code's again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from standfast.profiles import defaults_for
from standfast.rules import QueueRules
from standfast.spine.claim_requests import Publication
from standfast.store.steps import Script, text


class FileRule(msgspec.Struct, frozen=True):
    """One rule from a settings file."""

    value: Any
    file: str


class Layers(msgspec.Struct, frozen=True):
    """What was published for one queue: by code, and by settings files."""

    code: QueueRules | None = None
    overlay: dict[str, FileRule] = {}

    def in_force(self, queue: str) -> QueueRules:
        """Return the rules that result from the layers."""
        below = self.code or defaults_for(queue)
        if not self.overlay:
            return below
        named = {rule: each.value for rule, each in self.overlay.items()}
        return msgspec.convert({**msgspec.to_builtins(below), **named}, QueueRules)

    def published_by(self, code: QueueRules | None, named: Mapping[str, Any], file: str, *, has_code: bool) -> Layers:
        """Return the layers after one process has published.

        A process with the code withdraws the rules that its own file named earlier. A process without it changes only
        the rules that its file names.
        """
        kept = {rule: each for rule, each in self.overlay.items() if not (has_code and each.file == file)}
        return Layers(code or self.code, kept | {rule: FileRule(value, file) for rule, value in named.items()})


_rules = msgspec.json.Decoder(QueueRules)
_overlay = msgspec.json.Decoder(dict[str, FileRule])


def stored(queue: str, rules: str | None, declared: str | None, overlay: str | None) -> Layers:
    """Read the layers of a queue. Rules that do not result from them were written by a version without layers."""
    if rules is None:
        return Layers()
    code = _rules.decode(declared) if declared else None
    layers = Layers(code, _overlay.decode(overlay) if overlay else {})
    in_force = _rules.decode(rules)
    return layers if layers.in_force(queue) == in_force else Layers(in_force)


def merge(publication: Publication) -> Script[tuple[dict[str, QueueRules], set[str]]]:
    """Write the layers that a process publishes; return the resulting rules, and the queues that existed before."""
    coded = {*publication.queues, *(each["queue"] for each in msgspec.to_builtins(publication.handlers))}
    names = sorted(coded | publication.named.keys())
    stored = yield from _locked(names)
    missing = [name for name in names if name not in stored]
    if missing:  # also for queues known only by a handler, before their first job
        yield "ensure_queues", {"queues": text(missing)}
    known = stored | ((yield from _locked(missing)) if missing else {})
    found = {}
    for name in names:
        said = publication.queues.get(name), publication.named.get(name, {})
        found[name] = known[name].published_by(*said, publication.file, has_code=name in coded)
    changed = {name: _written(layers) for name, layers in found.items() if layers != known[name]}
    if changed:
        yield "write_layers", {"layers": text(changed)}
    spoken_of = publication.queues.keys() | publication.named.keys() | changed.keys()
    return {name: found[name].in_force(name) for name in names if name in spoken_of}, set(stored)


def _locked(names: Iterable[str]) -> Script[dict[str, Layers]]:
    rows = yield "lock_layers", {"queues": text(list(names))}
    return {name: stored(name, *rest) for name, *rest in rows}


def _written(layers: Layers) -> dict[str, str | None]:
    return {
        "declared": None if layers.code is None else text(layers.code),
        "overlay": text(layers.overlay) if layers.overlay else None,
    }
