"""The bench: every row of the issue's table appears, with figures that are computed from what was measured."""

from __future__ import annotations

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path
from statistics import median

import msgspec
import pytest

from standfast.bench import bench_place as place
from standfast.bench import command, table
from standfast.bench.figure import Figure
from standfast.bench.interleaved import Rounds
from standfast.bench.progress import ProgressLine
from standfast.bench.raw import RawQueue
from standfast.bench.report import Report, run
from standfast.bench.rows import Bar, Row, rows, specs
from standfast.bench.sizes import FULL, PAYLOAD, PAYLOAD_BYTES, QUICK, Sizes
from standfast.errors import ConfigurationError
from standfast.spine.payload import canonical

TINY = Sizes(
    small=10,
    middle=100,
    large=200,
    warm_up=10,
    one_at_a_time=20,
    by_callers=192,
    by_bulk=1000,
    drained=60,
    one_beside_backlog=5,
    beside_backlog=64,
    with_feature=20,
    probes=4,
    longest_pause=0.006,
    idle_seconds=0.3,
    seconds=10.0,
    drain_all_seconds=10.0,
)

# It starts a dozen processes, which a busy machine does slowly.
pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

BARS = {
    "enqueue_64_one_row": "ratio >= 12",
    "enqueue_64_64_rows": "ratio >= 0.4",
    "enqueue_one": "ratio >= 0.75",
    "bulk": "ratio >= 0.5",
    "drain": "ratio >= 0.35",
    "drain_backlog": "ratio >= 0.85",
    "start_inside_p50": "value <= 1.5",
    "start_across_p50": "value <= 2.2",
    "idle_cpu": "value <= 0.5",
    "memory_peak": "value <= 60",
    "memory_flat": "ratio <= 1.1",
}
"""The issue's table, row by row."""
WITHOUT_BAR = {
    "start_inside_p99",
    "start_across_p99",
    "backlog_enqueue_one",
    "backlog_enqueue_64",
    "backlog_bulk",
    "backlog_drain",
    "backlog_start_inside_p50",
    "backlog_start_across_p50",
    *(f"feature_{name}" for name in ("key", "thread", "limit", "session", "effect")),
}


def worded(bar: Bar) -> str:
    return f"{bar.of} {'>=' if bar.at_least else '<='} {bar.bound:g}"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    directory = tmp_path_factory.mktemp("bench")
    found = run(directory, TINY, 1, lambda _: None)
    assert list(directory.iterdir()) == [], "the bench leaves nothing behind"
    return found


@pytest.fixture(scope="module")
def by_id(report: Report) -> dict[str, Row]:
    return {row.id: row for row in report.rows}


def test_every_row_of_the_issue_is_measured_and_held_against_its_bar(by_id: dict[str, Row]):
    assert {name: worded(row.bar) for name, row in by_id.items() if row.bar} == BARS
    assert {name for name, row in by_id.items() if row.bar is None} == WITHOUT_BAR
    assert all(row.value is not None and row.value > 0 for row in by_id.values())


def test_a_value_is_the_figure_that_was_measured(report: Report):
    named = {spec.id: spec for spec in specs(TINY)}
    for row in report.rows:
        spec = named[row.id]
        assert row.value == report.figures[spec.figure][0].value
        assert row.beside == (report.figures[spec.beside][0].value if spec.beside else None)


def test_a_ratio_is_the_product_over_what_stands_beside_it(by_id: dict[str, Row]):
    compared = [row for row in by_id.values() if row.beside_is]
    assert len(compared) == len(by_id) - 2, "idle time and peak memory alone have nothing beside them"
    for row in compared:
        assert row.value is not None
        assert row.beside
        assert row.ratio == pytest.approx(row.value / row.beside)


def test_throughput_is_jobs_over_seconds(report: Report):
    for name in ("raw_one_row", "raw_64_rows", "raw_1000_rows", "raw_claim_complete", "enqueue_64", "bulk", "drain"):
        [figure] = report.figures[name]
        assert figure.value == pytest.approx(figure.count / figure.seconds), name
    assert report.figures["enqueue_one"][0].count == TINY.one_at_a_time
    assert report.figures["enqueue_64"][0].count == TINY.by_callers
    assert report.figures["drain"][0].count == TINY.drained
    assert report.figures["large.drain"][0].count == TINY.one_beside_backlog + TINY.beside_backlog + 1000
    assert report.figures["memory_peak"][0].count == TINY.large


def test_the_table_says_every_row_with_its_figures(report: Report):
    lines = table.layout(report).plain()
    assert len(lines) == 1 + len(report.rows)
    for line, row in zip(lines[1:], report.rows, strict=True):
        assert line.startswith(row.metric)
        assert table.quantity(row.value, row.unit) in line
        assert table.quantity(row.beside, row.unit) in line or not row.beside_is
        assert table.verdict(row) in line


def test_the_notes_say_how_much_was_measured_and_what_weakens_it(report: Report):
    notes = "\n".join(table.notes(report))
    assert f"drain of no-op jobs to empty, 512 slots: once, {TINY.drained} jobs in " in notes
    assert "only 1 rounds: a median needs at least 3" in notes
    assert f"of {len(BARS)} bars are met" in notes


def test_json_has_everything(report: Report, by_id: dict[str, Row]):
    read = json.loads(command.to_json(report))
    assert {row["id"]: row["ratio"] for row in read["rows"]} == {name: row.ratio for name, row in by_id.items()}
    assert read["figures"].keys() == report.figures.keys()
    assert read["settings"]["synchronous"] == "FULL"
    assert read["settings"]["sizes"]["drained"] == TINY.drained
    assert read["machine"]["versions"].keys() == {"standfast", "python", "apsw", "sqlite"}
    assert read["machine"]["file_system"].keys() == {"kind", "mount", "device"}
    assert read["machine"]["date"].endswith("+00:00")
    assert read["took_seconds"] > 0


def rounds_of(value: float, beside: list[float], values: list[float]) -> Rounds:
    """Every figure the same in three rounds, but for the drain and what stands beside it."""
    names = {spec.figure for spec in specs(FULL)} | {spec.beside for spec in specs(FULL) if spec.beside}
    found = {name: [Figure(value, 1, 1.0)] * 3 for name in names}
    found["drain"] = [Figure(each, 1, 1.0) for each in values]
    found["raw_claim_complete"] = [Figure(each, 1, 1.0) for each in beside]
    return found


@pytest.mark.parametrize(("fast", "passes"), [(40.0, True), (34.0, False)])
def test_a_row_is_judged_by_the_median_of_its_rounds_ratios(fast: float, *, passes: bool):
    values, beside = [fast, 100.0, 1.0], [100.0, 100.0, 100.0]
    [drain] = [row for row in rows(rounds_of(1.0, beside, values), FULL) if row.id == "drain"]
    assert [pair.ratio for pair in drain.rounds] == [value / 100 for value in values]
    assert drain.ratio == median(value / 100 for value in values)
    assert drain.passes is passes
    assert table.verdict(drain) == ("pass" if passes else "falls short")


def test_what_was_cut_short_says_so():
    found = rounds_of(1.0, [1.0] * 3, [1.0] * 3)
    found["drain"][1] = Figure(1.0, 1, 1.0, cut=True)
    [drain] = [row for row in rows(found, FULL) if row.id == "drain"]
    assert table.verdict(drain) == "pass, cut short"


def test_a_disk_too_slow_for_the_backlog_is_refused(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="use --quick"):
        run(tmp_path, msgspec.structs.replace(TINY, fill_seconds=0.0), 1, lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_what_could_not_be_measured_is_said_and_not_passed():
    without = {name: figures for name, figures in rounds_of(1.0, [1.0] * 3, [1.0] * 3).items() if "memory" not in name}
    peak = next(row for row in rows(without, FULL) if row.id == "memory_peak")
    assert (peak.value, peak.passes) == (None, None)
    assert table.cells(peak)[-1] == "not measured"


def test_the_sizes_are_those_the_issue_names():
    assert (FULL.small, FULL.middle, FULL.large) == (1_000, 100_000, 1_000_000)
    assert min(FULL.idle_seconds, QUICK.idle_seconds) >= 10
    assert "drain with 1 M waiting" in {spec.metric for spec in specs(FULL)}
    assert "drain with 100 k waiting" in {spec.metric for spec in specs(QUICK)}
    assert len(canonical(PAYLOAD)) == PAYLOAD_BYTES


def test_raw_sqlite_empties_its_table(tmp_path: Path):
    queue = RawQueue(tmp_path / "raw.db", warm_up=600)
    assert queue.claims_and_completes(seconds=10).count == 600
    assert queue.inserts(64, 128, seconds=10).count == 128
    queue.close()


def test_the_disk_is_that_of_the_named_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    assert place.directory_of(None) == tmp_path
    assert place.directory_of("sqlite:///data/queue.db") == tmp_path / "data"
    assert place.directory_of(f"sqlite:///{tmp_path}/queue.db") == tmp_path
    assert place.directory_of("data") == tmp_path / "data"
    with pytest.raises(ConfigurationError, match="names none"):
        place.directory_of(":memory:")


def test_a_file_system_in_memory_is_recognised(tmp_path: Path):
    mounts = f"1 2 0:1 / / rw - ext4 /dev/vda rw\n1 2 0:2 / {tmp_path} rw shared:1 - tmpfs none rw\n"
    assert place.file_system(tmp_path, mounts)["kind"] == "tmpfs"
    assert place.file_system(Path("/"), mounts) == {"kind": "ext4", "mount": "/", "device": "/dev/vda"}


def test_a_full_disk_is_refused_before_anything_is_written(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="--quick"):
        place.check_room(tmp_path, 10**15)


def test_progress_is_for_terminals_only():
    piped = StringIO()
    ProgressLine(piped)("round 1")
    assert piped.getvalue() == ""
    terminal = StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    ProgressLine(terminal)("round 1")
    assert terminal.getvalue().endswith("round 1")


def test_it_runs_as_a_module():
    shown = subprocess.run([sys.executable, "-m", "standfast.bench", "--help"], capture_output=True, check=True)
    assert b"--quick" in shown.stdout
