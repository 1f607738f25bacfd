"""All results of one run, as a value: the same for the table and for JSON."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from standfast.bench import bench_place as place
from standfast.bench import raw
from standfast.bench.interleaved import Rounds, measure
from standfast.bench.rows import Row, rows
from standfast.bench.sizes import CALLERS, PAYLOAD_BYTES, RAW_CLAIM, Sizes
from standfast.bench.stores import Say

FEWEST_ROUNDS = 3


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Rows with medians, the figures behind them, and the machine."""

    machine: dict[str, Any]
    settings: dict[str, Any]
    took_seconds: float
    rows: list[Row]
    figures: Rounds
    remarks: list[str]


def run(directory: Path, sizes: Sizes, rounds: int, say: Say) -> Report:
    """Measure in a temporary directory inside `directory`, which is deleted afterwards."""
    place.check_room(directory, sizes.small + sizes.middle + sizes.large)
    machine = place.machine(directory)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="standfast-bench-", dir=directory) as inside:
        figures = asyncio.run(measure(Path(inside), sizes, rounds, say))
    machine["load_after"] = round(os.getloadavg()[0], 2)
    found = rows(figures, sizes)
    return Report(
        machine=machine,
        settings=_settings(sizes, rounds),
        took_seconds=time.monotonic() - began,
        rows=found,
        figures=figures,
        remarks=_remarks(machine, rounds, found),
    )


def _settings(sizes: Sizes, rounds: int) -> dict[str, Any]:
    return {
        "synchronous": "FULL",
        "rounds": rounds,
        "callers": CALLERS,
        "payload_bytes": PAYLOAD_BYTES,
        "raw_claim": RAW_CLAIM,
        "raw_sqlite": raw.SETTINGS,
        "sizes": msgspec.structs.asdict(sizes),
    }


def _remarks(machine: dict[str, Any], rounds: int, found: list[Row]) -> list[str]:
    """Say what weakens the figures."""
    remarks = []
    if not machine["is_a_disk"]:
        kind = machine["file_system"]["kind"]
        remarks.append(f"{machine['directory']} is on {kind}, which is no disk: a commit costs nothing here")
    if rounds < FEWEST_ROUNDS:
        remarks.append(f"only {rounds} rounds: a median needs at least {FEWEST_ROUNDS}")
    if machine["load_before"] > machine["cores"] / 2:
        remarks.append(f"the machine was busy (load {machine['load_before']}) when this began")
    cut = sorted({row.metric for row in found if row.cut})
    if cut:
        remarks.append(f"the time was up before everything was measured, see the counts: {'; '.join(cut)}")
    unmeasured = [row.metric for row in found if row.value is None]
    if unmeasured:
        remarks.append(f"not measured on this system: {'; '.join(unmeasured)}")
    return remarks
