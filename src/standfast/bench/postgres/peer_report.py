"""All results of one run on PostgreSQL, as a value: the same for the table and for JSON."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import msgspec

from standfast.bench import bench_place as place
from standfast.bench.postgres import environment
from standfast.bench.postgres.bench_server import Server
from standfast.bench.postgres.environment import Installed
from standfast.bench.postgres.peer_rounds import Round, measure
from standfast.bench.postgres.peer_rows import Row, rows
from standfast.bench.report import FEWEST_ROUNDS
from standfast.bench.sizes import CALLERS, PAYLOAD_BYTES, Sizes
from standfast.bench.stores import Say


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Rows with medians, the figures behind them, the machine and server, and which peers were not measured and why."""

    machine: dict[str, Any]
    server: dict[str, Any]
    peers: dict[str, str]
    not_measured: dict[str, str]
    settings: dict[str, Any]
    took_seconds: float
    rows: list[Row]
    figures: list[Round]
    remarks: list[str]


def run(url: str, sizes: Sizes, rounds: int, peers: str | None, say: Say) -> Report:
    """Measure on the server in the URL, in databases that are dropped afterwards."""
    server = Server(url)
    about = server.describe()
    installed = environment.prepare(peers, say)
    machine = _machine(installed)
    began = time.monotonic()
    found = asyncio.run(measure(server, installed, sizes, rounds, say))
    machine["load_after"] = round(os.getloadavg()[0], 2)
    made = rows(found.rounds, sizes)
    return Report(
        machine=machine,
        server=about,
        peers=installed.versions,
        not_measured=found.not_measured,
        settings=_settings(server, sizes, rounds),
        took_seconds=time.monotonic() - began,
        rows=made,
        figures=found.rounds,
        remarks=remarks(machine, about, rounds, made),
    )


def _machine(installed: Installed) -> dict[str, Any]:
    """Describe this machine, without its disk: the server's disk counts."""
    known = place.machine(Path.cwd())
    kept = {name: known[name] for name in ("date", "system", "processor", "cores", "load_before")}
    own = {name: known["versions"][name] for name in ("standfast", "python")}
    return kept | {"versions": own | {"python of the peers": installed.python_version or "none"}}


def _settings(server: Server, sizes: Sizes, rounds: int) -> dict[str, Any]:
    return {
        "rounds": rounds,
        "callers": CALLERS,
        "payload_bytes": PAYLOAD_BYTES,
        "url": server.product_options,
        "sizes": msgspec.structs.asdict(sizes),
    }


def remarks(machine: dict[str, Any], server: dict[str, Any], rounds: int, made: list[Row]) -> list[str]:
    """Say what weakens the figures."""
    said = []
    if server["file_system"] in place.NOT_A_DISK:
        said.append(f"the server's data are on {server['file_system']}, which is no disk: a commit costs nothing here")
    if rounds < FEWEST_ROUNDS:
        said.append(f"only {rounds} rounds: a median needs at least {FEWEST_ROUNDS}")
    if machine["load_before"] > machine["cores"] / 2:
        said.append(f"the machine was busy (load {machine['load_before']}) when this began")
    cut = [row.metric for row in made if row.cut]
    if cut:
        said.append(f"the time was up before everything was measured, see the counts: {'; '.join(cut)}")
    return said
