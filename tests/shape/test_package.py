"""What a package says of itself agrees: Python, PostgreSQL, the changelog, and every command that is named."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import standfast
from standfast.store.postgres.connection import OLDEST_SERVER

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [f"3.{minor}" for minor in (11, 12, 13, 14)]
IN_SHELL = {".", "pytest"}
"""Commands of a workflow's steps that stand in no folder of ours: one of the shell, and one of .venv."""


def read(path: str) -> Any:
    return YAML(typ="safe").load(ROOT / path)


def workflow_jobs() -> dict[str, Any]:
    jobs: dict[str, Any] = read(".github/workflows/test.yml")["jobs"]
    return jobs


def test_every_python_that_is_promised_is_tested_by_the_workflow():
    said = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert said == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    assert workflow_jobs()["python"]["strategy"]["matrix"]["python"] == PYTHONS


def test_the_workflow_begins_with_the_oldest_postgresql_that_is_accepted():
    versions = [int(each) for each in workflow_jobs()["postgres"]["strategy"]["matrix"]["postgres"]]
    assert versions == list(range(OLDEST_SERVER, versions[-1] + 1))


def test_every_command_of_the_workflow_is_there():
    steps = [step["run"] for job in workflow_jobs().values() for step in job["steps"] if "run" in step]
    lines = [line.split() for step in steps for line in step.splitlines()]
    assert len(lines) >= len(workflow_jobs())
    for words in lines:
        for word in words:
            if word.startswith("script/"):
                assert os.access(ROOT / word, os.X_OK), word
        assert words[0].startswith("script/") or words[0] in IN_SHELL, words


def test_every_command_of_pre_commit_is_there():
    hooks = [hook for repo in read(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    programs = [Path(hook["entry"].split()[0]) for hook in hooks]
    assert {each.parent for each in programs} == {Path(".venv/bin")}
    assert [each.name for each in programs if not (Path(sys.executable).parent / each.name).exists()] == []


def test_the_hook_for_other_projects_runs_a_command_that_is_there():
    [hook] = read(".pre-commit-hooks.yaml")
    program, command = hook["entry"].split()
    assert program in PROJECT["scripts"]
    from standfast.cli.main import main  # noqa: PLC0415 - the command line, for this one test

    assert command in main.commands


def test_the_changelog_has_a_section_for_the_version_and_the_package_shows_its_readme():
    sections = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sections[0] == PROJECT["version"]
    assert (ROOT / PROJECT["readme"]).is_file()


def test_the_version_that_is_shown_is_the_one_that_is_installed():
    if standfast.__version__ == "0+unknown":
        pytest.skip("standfast is not installed here")
    assert standfast.__version__ == PROJECT["version"]
