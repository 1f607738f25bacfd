"""The results of the steps before a step, as its handler reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from standfast.job import Parent
from standfast.store.store import Store
from standfast.wings.workflows import graphs

Fetch = Callable[[int], str | None]
"""Reads a result (JSON text) by its step's number."""


class Parents(Mapping[str, Any]):
    """By name, the results of the steps that this step comes after; None for a step that returned nothing.

    A result that is too big to be loaded with the job is read on access, which blocks until the store answers.
    """

    def __init__(self, known: Mapping[str, Parent], fetch: Fetch | None = None) -> None:
        self._known = known
        self._fetch = fetch
        self._read: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._read:
            self._read[name] = self._result(name)
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known  # without reading the result

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return f"Parents({', '.join(self._known)})"

    def _result(self, name: str) -> Any:
        if name not in self._known:
            raise KeyError(f"this step comes after {', '.join(self._known) or 'no other'}, and not after {name!r}")
        parent = self._known[name]
        text = self._fetch(parent.n) if parent.left_out and self._fetch is not None else parent.result
        return None if text is None else msgspec.json.decode(text)


def fetch_result(store: Store, step: int) -> str | None:
    """Read the result of one step, as JSON text, for code that cannot await."""
    return store.read(graphs.result(step)).result()
