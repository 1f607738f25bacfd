"""The shapes that docs/scan.md says ruff and mypy do not find: they do not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.scan.shapes import CORPUS, SHAPES, expected

PAGE = Path(__file__).parents[2] / "docs" / "scan.md"
STYLE = frozenset({"E501", "SIM117", "PTH123", "PLW1514", "PERF401", "ANN201", "D102", "PLR6301"})
"""What ruff says about the looks of a line, and not about what is lost there."""
FEWEST = 17


def named_on_the_page() -> list[str]:
    section = PAGE.read_text().partition("## What ruff and mypy do not find")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


MISSED = named_on_the_page()


def lines_of(shape: str) -> set[int]:
    return {line for _, line, _ in expected(CORPUS / f"{shape}.py")}


def test_the_page_names_enough_shapes_of_the_corpus():
    assert len(MISSED) >= FEWEST
    assert {f"{name}.py" for name in MISSED} <= set(SHAPES)
    assert all(lines_of(name) for name in MISSED)


def test_ruff_does_not_find_them():
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--preview", "--select", "ALL"]
    ended = subprocess.run(
        [*command, "--output-format", "json", str(CORPUS)], capture_output=True, text=True, check=False
    )
    said: defaultdict[str, set[str]] = defaultdict(set)
    for each in json.loads(ended.stdout):
        name = Path(each["filename"]).stem
        if each["location"]["row"] in lines_of(name) if f"{name}.py" in SHAPES else False:
            said[name].add(each["code"])
    assert said["dangling_create_task"] >= {"RUF006"}, "ruff was not asked for everything it knows"
    assert {name: codes - STYLE for name, codes in said.items() if name in MISSED and codes - STYLE} == {}


@pytest.mark.long
@pytest.mark.timeout(300)
def test_mypy_does_not_find_them():
    options = ["--strict", "--no-incremental", "--config-file=", "--ignore-missing-imports"]
    options += ["--allow-untyped-defs", "--allow-untyped-calls", "--allow-untyped-decorators"]
    options += ["--enable-error-code=unused-awaitable", "--enable-error-code=truthy-bool"]
    files = [str(CORPUS / f"{name}.py") for name in [*MISSED, "coroutine_statement"]]
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *files], capture_output=True, text=True, check=False
    )
    said = {
        (Path(found[1]).stem, int(found[2]))
        for found in re.finditer(r"^(.+?):(\d+): error", ended.stdout, re.MULTILINE)
    }
    assert ("coroutine_statement", 9) in said, ended.stdout
    assert {(name, line) for name, line in said if name in MISSED and line in lines_of(name)} == set()
