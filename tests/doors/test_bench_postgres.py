"""The bench on PostgreSQL: rows, bars and reasons from given figures, and a tiny run without peers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psycopg
import pytest

from standfast.bench import command
from standfast.bench.figure import Figure
from standfast.bench.postgres import bench_server as server
from standfast.bench.postgres import environment
from standfast.bench.postgres import peer_table as table
from standfast.bench.postgres.bench_server import Server
from standfast.bench.postgres.contestant import Failed
from standfast.bench.postgres.environment import PACKAGES
from standfast.bench.postgres.peer import HARNESS, NODE_HARNESS, Counted
from standfast.bench.postgres.peer_process import PeerProcess
from standfast.bench.postgres.peer_report import Report, run
from standfast.bench.postgres.peer_rounds import Round
from standfast.bench.postgres.peer_rows import PEERS, Row, rows, specs
from standfast.bench.postgres.peer_sizes import FULL, QUICK
from standfast.bench.sizes import Sizes
from standfast.bench.table import TIMES
from standfast.errors import ConfigurationError
from tests.postgres import connect, fresh_schema

TINY = Sizes(
    middle=40,
    large=80,
    one_at_a_time=5,
    by_callers=128,
    by_bulk=1000,
    drained=30,
    probes=3,
    longest_pause=0.006,
    seconds=10.0,
)
MACHINE = {
    "date": "today",
    "versions": {"standfast": "1"},
    "cores": 2,
    "processor": "p",
    "system": "s",
    "load_before": 0,
    "load_after": 0,
}
BARS = {
    "enqueue_64": "≥ 12 x",
    "drain": "≥ 2.5 x",
    "drain_of_graphile": "≥ 1.2 x",
    "drain_large": "≥ 0.8 x",
    "start_inside_p50": "≤ 0.8 x",
    "start_across_p50": "≤ 0.8 x",
}
"""The issue's bars, row by row."""

pytestmark = pytest.mark.timeout(120)  # it starts processes, which a busy machine does slowly


def round_of(**values: dict[str, float]) -> Round:
    return {who: {name: Figure(value, 10, 1.0) for name, value in theirs.items()} for who, theirs in values.items()}


def row(figure: str, rounds: list[Round]) -> Row:
    return next(each for each in rows(rounds, FULL) if each.id == figure)


def report_of(rounds: list[Round], not_measured: dict[str, str]) -> Report:
    return Report(
        machine=MACHINE,
        server={"version": "18.1", "settings": {"fsync": "on"}, "data_directory": None, "file_system": None},
        peers={"PgQueuer": "1.6.0"},
        not_measured=not_measured,
        settings={"payload_bytes": 200, "rounds": len(rounds)},
        took_seconds=1.0,
        rows=rows(rounds, FULL),
        figures=rounds,
        remarks=[],
    )


class TestRows:
    def test_every_bar_of_the_issue_is_there(self):
        shown = {each.id: table.cells(each) for each in rows([], FULL)}
        assert {name: cells[-2].replace(TIMES, "x") for name, cells in shown.items() if cells[-2]} == BARS
        assert [spec.metric for spec in specs(FULL)][5:7] == [
            "drain with 100 k waiting",
            "drain with 1 M waiting, to 100 k",
        ]
        assert (QUICK.middle, QUICK.large) == (10_000, 100_000)

    @pytest.mark.parametrize(("ours", "passes"), [(1250.0, True), (1150.0, False)])
    def test_a_rate_is_held_against_the_best_peer(self, ours: float, *, passes: bool):
        name = "enqueue_64"
        found = row(name, [round_of(standfast={name: ours}, PgQueuer={name: 100}, Oban={name: 20})])
        assert (found.best, found.ratio, found.passes) == ("PgQueuer", ours / 100, passes)
        assert found.peers == {"PgQueuer": 100, "Oban": 20, "Procrastinate": None, "graphile-worker": None}
        assert table.verdict(found) == ("pass" if passes else "falls short")

    def test_a_drain_is_held_against_two_peers_each_by_its_own_bar(self):
        theirs = {"PgQueuer": {"drain": 100.0}, "graphile-worker": {"drain": 250.0}}
        rounds = [round_of(standfast={"drain": 280.0}, **theirs)]
        python, node = row("drain", rounds), row("drain_of_graphile", rounds)
        assert (python.best, python.ratio, python.passes) == ("PgQueuer", 2.8, True)
        assert (node.best, node.ratio, node.passes) == ("graphile-worker", 1.12, False)

    @pytest.mark.parametrize(("ours", "passes"), [(7.0, True), (7.5, False)])
    def test_a_wait_is_held_against_pgqueuer(self, ours: float, *, passes: bool):
        name = "start_across_p50"
        found = row(name, [round_of(standfast={name: ours}, PgQueuer={name: 9.0}, Procrastinate={name: 5.0})])
        assert (found.best, found.ratio, found.passes) == ("PgQueuer", ours / 9, passes)

    def test_a_ratio_is_the_median_of_the_rounds_that_have_both(self):
        rounds = [round_of(standfast={"drain": each}, PgQueuer={"drain": 100}) for each in (100, 300, 900)]
        rounds.append(round_of(standfast={"drain": 1}))
        found = row("drain", rounds)
        assert (found.value, found.ratio) == (200, 3.0)
        assert len(found.rounds) == 4

    def test_a_backlog_is_held_against_the_product_itself(self):
        ours = {"drain_large": 70.0, "drain_middle": 100.0}
        found = row("drain_large", [round_of(standfast=ours, PgQueuer={"drain": 1})])
        assert (found.best, found.ratio, found.passes) == (None, 0.7, False)

    def test_without_a_peer_no_bar_is_passed(self):
        found = row("drain", [round_of(standfast={"drain": 100})])
        assert (found.value, found.ratio, found.passes) == (100, None, None)
        assert table.verdict(found) == "nothing beside it"


class TestTable:
    def test_shows_the_product_and_every_peer(self):
        ours, theirs = {"drain": 30_000.0}, {"drain": 12_000.0}
        lines = table.layout(report_of([round_of(standfast=ours, PgQueuer=theirs)], {})).plain()
        assert lines[0].split() == ["metric", "standfast", *PEERS, "ratio", "bar"]
        [drain] = [line.replace(TIMES, "x") for line in lines if line.startswith("drain of no-op")]
        assert drain.endswith("30 000 /s  12 000 /s     -              -                -  2.50 x  ≥ 2.5 x  pass")

    def test_names_who_was_not_measured_and_why(self):
        reasons = {"Oban": "not installed: no such package", "PgQueuer, drain": "it ended early: KeyError: 'x'"}
        notes = table.notes(report_of([round_of(standfast={"drain": 1})], reasons))
        assert "Not measured: Oban: not installed: no such package." in notes
        assert "Not measured: PgQueuer, drain: it ended early: KeyError: 'x'." in notes
        assert "0 of 6 bars are met; these are not:" in notes

    def test_the_heading_tells_the_server(self):
        heading = table.heading(report_of([], {}))
        assert "PostgreSQL 18.1, fsync=on, data in a directory it does not tell" in heading
        assert "PgQueuer 1.6.0" in heading


@pytest.mark.long
class TestPeers:
    def test_each_has_a_driver(self):
        for package in PACKAGES:
            driver = NODE_HARNESS if package.on_node else HARNESS.with_name(f"{package.name}_driver.py")
            assert driver.is_file()

    def test_what_npm_installed_is_found_and_without_npm_that_is_the_reason(self, tmp_path: Path, monkeypatch):
        [package] = [package for package in PACKAGES if package.on_node]
        monkeypatch.setenv("PATH", str(tmp_path))
        assert environment._install_on_node(tmp_path, package) == "npm is not here"  # noqa: SLF001
        (tmp_path / "node").touch(mode=0o755)
        place = tmp_path / "node_modules" / package.name
        place.mkdir(parents=True)
        (place / "package.json").write_text('{"version": "1.2.3"}')
        assert environment._node_version(tmp_path, package) == "1.2.3"  # noqa: SLF001

    def test_an_environment_without_them_says_so(self, tmp_path: Path):
        found = environment.prepare(sys.executable, lambda _: None)
        assert found.reasons.keys() | found.versions.keys() == {package.title for package in PACKAGES}
        assert all("not installed" in why for why in found.reasons.values())
        with pytest.raises(ConfigurationError, match="holds no bin/python"):
            environment.prepare(str(tmp_path), lambda _: None)

    async def test_a_process_that_dies_tells_its_last_words(self):
        process = PeerProcess([sys.executable, str(HARNESS), "no_such_driver"])
        with pytest.raises(Failed, match=r"ModuleNotFoundError: No module named 'no_such_driver'"):
            await process.ask({"program": "install", "url": "", "seconds": 1.0}, bool)
        await process.close()

    async def test_the_harness_measures_whatever_a_driver_offers(self, tmp_path: Path):
        (tmp_path / "memory_driver.py").write_text(IN_MEMORY)
        program = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(HARNESS.parent)!r}]; import harness; "
        process = PeerProcess([sys.executable, "-c", program + "harness.main('memory_driver')"])
        order = {"url": "", "payload": {}, "seconds": 5.0, "size": 10, "callers": 4, "count": 20, "pause": 0.006}
        for name, count in {"enqueue": 20, "bulk": 20, "drain": 19}.items():
            assert (await process.ask(order | {"program": name}, Counted)).count == count
        started = await process.ask(order | {"program": "starts_inside", "count": 3}, dict)
        assert list(started["starts"]) == ["0", "1", "2"]
        await process.close()


IN_MEMORY = """
import asyncio
from contextlib import asynccontextmanager

class Peer:
    jobs = []
    def __init__(self, url): pass
    async def install(self): pass
    @asynccontextmanager
    async def opened(self): yield
    async def enqueue(self, payload): self.jobs.append(payload)
    async def enqueue_many(self, payloads): self.jobs += payloads
    @asynccontextmanager
    async def working(self, handle):
        async def work():
            while True:
                while self.jobs: handle(self.jobs.pop())
                await asyncio.sleep(0.001)
        running = asyncio.create_task(work())
        yield
        running.cancel()
"""


@pytest.mark.long
class TestOnAServer:
    @pytest.fixture(autouse=True)
    def prefix(self, monkeypatch: pytest.MonkeyPatch) -> str:
        """Let others run the bench on the same server meanwhile."""
        monkeypatch.setattr(server, "PREFIX", f"bench_{fresh_schema()}_")
        return server.PREFIX

    def test_measures_the_product_and_leaves_nothing_behind(self, postgres_url: str, prefix: str):
        report = run(postgres_url, TINY, 1, "none", lambda _: None)
        assert all(each.value is not None and each.value > 0 for each in report.rows)
        assert [len(each.rounds) for each in report.rows] == [1] * len(report.rows)
        by_id = {each.id: each for each in report.rows}
        assert by_id["enqueue_64"].count == TINY.by_callers
        assert by_id["drain_large"].ratio is not None
        assert report.not_measured == {package.title: "--peers none" for package in PACKAGES}
        assert report.server["settings"]["fsync"] == "on"
        assert json.loads(command.to_json(report))["rows"][0]["id"] == "enqueue_one"
        assert databases(postgres_url, prefix) == []

    def test_a_database_is_made_and_dropped(self, postgres_url: str, prefix: str):
        on = Server(postgres_url)
        with on.database() as url, psycopg.connect(url) as connection:
            assert databases(postgres_url, prefix) == [connection.info.dbname]
            assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
        assert databases(postgres_url, prefix) == []
        assert "schema=" not in url
        assert on.for_product(url).endswith("prepare=yes")

    def test_a_server_that_is_not_there_is_told(self):
        with pytest.raises(ConfigurationError, match="may create databases"):
            run("postgresql:///app?host=/nowhere", TINY, 1, "none", lambda _: None)


def databases(url: str, prefix: str) -> list[str]:
    with connect(url) as connection:
        found = connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", (prefix,))
        return [name for (name,) in found]


def test_an_installed_package_says_in_one_line_that_it_has_no_drivers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "DRIVERS", tmp_path / "benchmarks/peers")
    said: list[str] = []
    found = environment.prepare(None, said.append)
    assert said == [environment.NO_DRIVERS]
    assert found.reasons == {package.title: environment.NO_DRIVERS for package in PACKAGES}


def test_a_checkout_has_a_driver_for_every_other_queue() -> None:
    for package in PACKAGES:
        assert (
            environment.DRIVERS / ("graphile_harness.cjs" if package.on_node else f"{package.name}_driver.py")
        ).is_file()
