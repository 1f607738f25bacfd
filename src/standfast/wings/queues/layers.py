"""The rules of a queue in layers: what a settings file names, over what the code declared, over the defaults.

The store keeps the layers beside the rules in force, so that a process that has only a file can lay its few rules over
what another process's code declared, and so that a rule which is gone from the file is the code's again.
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
    """One rule as a settings file has it."""

    value: Any
    file: str


class Layers(msgspec.Struct, frozen=True):
    """What was published of one queue: by code, and by settings files."""

    code: QueueRules | None = None
    overlay: dict[str, FileRule] = {}

    def in_force(self, queue: str) -> QueueRules:
        """Give the rules that the layers amount to."""
        below = self.code or defaults_for(queue)
        if not self.overlay:
            return below
        named = {rule: each.value for rule, each in self.overlay.items()}
        return msgspec.convert({**msgspec.to_builtins(below), **named}, QueueRules)

    def published_by(self, code: QueueRules | None, named: Mapping[str, Any], file: str, *, has_code: bool) -> Layers:
        """Lay over these what one process says.

        A process with the code takes back what its own file said earlier. One without it leaves every rule as it was
        that its file does not name.
        """
        kept = {rule: each for rule, each in self.overlay.items() if not (has_code and each.file == file)}
        return Layers(code or self.code, kept | {rule: FileRule(value, file) for rule, value in named.items()})


_rules = msgspec.json.Decoder(QueueRules)
_overlay = msgspec.json.Decoder(dict[str, FileRule])


def stored(queue: str, rules: str | None, declared: str | None, overlay: str | None) -> Layers:
    """Read the layers of a queue. Rules that they do not amount to are a former version's, which knows no layers."""
    if rules is None:
        return Layers()
    code = _rules.decode(declared) if declared else None
    layers = Layers(code, _overlay.decode(overlay) if overlay else {})
    in_force = _rules.decode(rules)
    return layers if layers.in_force(queue) == in_force else Layers(in_force)


def merge(publication: Publication) -> Script[tuple[dict[str, QueueRules], set[str]]]:
    """Write down the layers that a process publishes; give the rules they amount to, and the queues that were there."""
    coded = {*publication.queues, *(each["queue"] for each in msgspec.to_builtins(publication.handlers))}
    names = sorted(coded | publication.named.keys())
    stored = yield from _locked(names)
    missing = [name for name in names if name not in stored]
    if missing:  # also for those that are known by a handler alone, before their first job
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
