"""The baseline: what is known stays quiet however its lines move, and what is new is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from standfast.errors import ConfigurationError
from standfast.scan import scan_baseline
from standfast.scan.scanner import scan

SOURCE = """import asyncio


async def send(number): ...


async def main():
    asyncio.create_task(send(1))


async def other():
    asyncio.create_task(send(1))
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = tmp_path / "app.py"
    file.write_text(SOURCE)
    return file


@pytest.fixture
def baseline(app: Path) -> Path:
    file = app.with_name("baseline.json")
    scan_baseline.write(file, scan([app.parent]).findings)
    return file


def new(baseline: Path) -> list[tuple[str, int]]:
    found = scan_baseline.new_since(baseline, scan([baseline.parent]).findings)
    return [(Path(each.path).name, each.line) for each in found]


def test_what_is_known_is_not_new(baseline):
    assert new(baseline) == []


def test_moved_and_reindented_lines_are_known(app, baseline):
    moved = SOURCE.replace("async def main", "# new\n\n\nasync def main")
    app.write_text(
        moved.replace("    asyncio.create_task(send(1))\n\n", "    if True:\n        asyncio.create_task(send(1))\n\n")
    )
    assert new(baseline) == []


def test_a_renamed_function_and_a_moved_file_are_known(app, baseline):
    app.write_text(SOURCE.replace("other", "another"))
    assert new(baseline) == []
    app.rename(app.with_name("renamed.py"))
    app.with_name("renamed.py").write_text(SOURCE)
    assert new(baseline) == []


def test_one_more_of_the_same_is_new(app, baseline):
    app.write_text(SOURCE + "    asyncio.create_task(send(1))\n")
    assert new(baseline) == [("app.py", 13)]


def test_another_finding_is_new(app, baseline):
    app.write_text(SOURCE + "    asyncio.create_task(send(2))\n")
    assert new(baseline) == [("app.py", 13)]


def test_it_holds_from_another_directory(app, baseline, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(app.parent)
    scan_baseline.write(Path("baseline.json"), scan([Path()]).findings)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert new(baseline) == []


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"version": 9, "findings": []}', "\udcff"])
def test_a_baseline_that_cannot_be_read_is_said(baseline, content):
    baseline.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigurationError, match="baseline"):
        new(baseline)
