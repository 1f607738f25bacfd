"""`standfast scan` as it is typed: what it prints, writes and exits with."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sarif_pydantic import Sarif

from standfast.cli.main import main
from standfast.scan.scan_rules import RULES

DANGLING = "import asyncio\n\n\nasync def send(to): ...\n\n\nasync def main(who):\n    asyncio.create_task(send(who))\n"
CLEAN = "print(1)\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["scan", *arguments])


def test_nothing_found_exits_0(here):
    (here / "app.py").write_text(CLEAN)
    result = run(".")
    assert result.exit_code == 0
    assert result.output == "0 findings in 1 file, 1 lines\n"


def test_a_finding_says_where_what_is_lost_and_what_to_write(here):
    (here / "app.py").write_text(DANGLING)
    result = run("app.py")
    assert result.exit_code == 1
    assert "lost-work (1)" in result.output
    assert "app.py:8:5  dangling-task" in result.output
    assert "garbage-collected" in result.output
    assert 'instead: await send.enqueue({"to": who}), with @sf.handler(...) on send' in result.output


@pytest.mark.parametrize(
    ("code", "instead"),
    [
        ("async def notify():\n    requests.post('x', timeout=5)\n", "await sf.enqueue_http("),
        ("def notify():\n    requests.post('x', timeout=5)\n", "sf.sync.enqueue_http("),
        ("requests.post('x', timeout=5)\n", "sf.sync.enqueue_http("),
        ("def start():\n    asyncio.ensure_future(send(1))\n", 'send.sync.enqueue({"to": 1})'),
        ("async def start():\n    def inner():\n        asyncio.ensure_future(send(1))\n", "send.sync.enqueue({"),
        (
            "async def start(loop):\n    loop.call_later(1, lambda: asyncio.ensure_future(send(1)))\n",
            "send.sync.enqueue({",
        ),
    ],
)
def test_the_advice_can_stand_where_the_finding_is(here, code, instead):
    (here / "app.py").write_text(f"import asyncio\nimport requests\n\nasync def send(to): ...\n\n{code}")
    assert f"      instead: {instead}" in run("app.py").output


def test_the_chosen_rank_decides_what_counts(here):
    (here / "app.py").write_text(
        DANGLING.replace("    asyncio.create_task", "    global task\n    task = asyncio.create_task")
    )
    (here / "late.py").write_text(
        DANGLING.replace("    asyncio", "    keep = set()\n    keep.add(asyncio").replace("who))", "who)))")
    )
    assert run(".").exit_code == 1
    assert run(".", "--rank", "hidden-failure").exit_code == 0


def test_a_file_that_cannot_be_parsed_is_said_and_the_rest_is_scanned(here):
    (here / "broken.py").write_text("def broken(:\n")
    (here / "bytes.py").write_bytes(b"x = '\xff'\n")
    (here / "null.py").write_bytes(b"x = 1\0\n")
    (here / "deep.py").write_text("x = " + "(" * 5000 + "1" + ")" * 5000)
    (here / "coding.py").write_bytes(b"# -*- coding: no-such -*-\n")
    (here / "app.py").write_text(DANGLING)
    result = run(".")
    assert result.exit_code == 1
    for name in ("broken.py:1", "bytes.py:1", "null.py:1", "deep.py:1", "coding.py:1"):
        assert f"{name}: could not be read: " in result.output
    assert "dangling-task" in result.output
    assert "5 files could not be read" in result.output


def test_an_unreadable_file_alone_exits_1(here):
    (here / "broken.py").write_text("def broken(:\n")
    assert run(".").exit_code == 1
    assert json.loads(run(".", "--json").output)["unreadable"][0]["path"] == "broken.py"


def test_json_has_every_finding(here):
    (here / "app.py").write_text(DANGLING)
    answer = json.loads(run(".", "--json").output)
    (finding,) = answer["findings"]
    assert (finding["rule"], finding["rank"], finding["line"], finding["column"]) == (
        "dangling-task",
        "lost-work",
        8,
        5,
    )
    assert (answer["files"], answer["lines"]) == (1, 8)


def test_columns_count_characters(here):
    (here / "app.py").write_text(DANGLING.replace("    asyncio.create_task", "    'ä€𝄞'; asyncio.create_task"))
    assert json.loads(run(".", "--json").output)["findings"][0]["column"] == 12


def test_sarif_is_valid_and_names_every_rule(here):
    (here / "odd name.py").write_text(DANGLING)
    (here / "broken.py").write_text("def broken(:\n")
    log = Sarif.model_validate_json(run(".", "--sarif").output)
    raw = json.loads(run(".", "--sarif").output)
    assert log.version == "2.1.0"
    driver = raw["runs"][0]["tool"]["driver"]
    assert [rule["id"] for rule in driver["rules"]] == list(RULES)
    (result,) = raw["runs"][0]["results"]
    assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "dangling-task"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "odd%20name.py"
    assert place["region"]["startLine"] == 8
    assert raw["runs"][0]["invocations"][0]["executionSuccessful"] is False


def test_a_baseline_is_written_and_compared(here):
    (here / "app.py").write_text(DANGLING)
    assert run(".", "--baseline", "known.json", "--write-baseline").exit_code == 0
    (here / "app.py").write_text("# one line more\n" + DANGLING)
    result = run(".", "--baseline", "known.json")
    assert result.exit_code == 0
    assert "1 in the baseline" in result.output
    (here / "app.py").write_text(DANGLING + "    asyncio.create_task(send(1))\n")
    assert run(".", "--baseline", "known.json").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "name a file or directory"),
        (["nowhere"], "there is no file or directory 'nowhere'"),
        (["."], "there is no Python file"),
        ([".", "--rank", "worst"], "'worst' is not one of"),
        ([".", "--write-baseline"], "--write-baseline needs --baseline FILE"),
        ([".", "--write"], "--write goes with --fix"),
        ([".", "--fix", "--json"], "leave --json and --sarif out"),
    ],
)
def test_what_cannot_be_done_exits_2(arguments, why):
    result = run(*arguments)
    assert result.exit_code == 2
    assert why in result.output


def test_a_missing_baseline_exits_2_and_says_how_to_write_one(here):
    (here / "app.py").write_text(CLEAN)
    result = run(".", "--baseline", "known.json")
    assert result.exit_code == 2
    assert "--write-baseline" in result.output


def test_fix_shows_a_diff_and_writes_nothing_by_itself(here):
    (here / "app.py").write_text(DANGLING)
    result = run(".", "--fix")
    assert "+    _keep_task(asyncio.create_task(send(who)))" in result.output
    assert "nothing was written; add --write" in result.output
    assert (here / "app.py").read_text() == DANGLING
    assert result.exit_code == 1


def test_fix_writes_when_told_to_and_says_what_is_left_to_do(here):
    (here / "app.py").write_text(DANGLING)
    result = run(".", "--fix", "--write")
    assert "_keep_task(asyncio.create_task(send(who)))" in (here / "app.py").read_text()
    assert "Still to do:" in result.output
    assert "task-never-awaited" in result.output
    assert result.exit_code == 1


def test_fix_without_anything_to_fix_says_so(here):
    (here / "app.py").write_text(CLEAN)
    result = run(".", "--fix")
    assert "nothing that can be rewritten safely" in result.output
    assert result.exit_code == 0


def test_fix_without_libcst_names_the_extra(here, monkeypatch):
    (here / "app.py").write_text(DANGLING)
    for name in [each for each in sys.modules if each.startswith("libcst") or each == "standfast.scan.codemod"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "libcst", None)
    result = run(".", "--fix")
    assert result.exit_code == 2
    assert "pip install 'standfast[codemod]'" in result.output


def test_text_of_the_scanned_code_cannot_act_on_the_terminal(here):
    (here / "app.py").write_text(DANGLING.replace("(who))\n", "('\\x1b[2J\x1b[2J'))\n"))
    assert "\x1b[2J" not in run(".").output


def test_excluded_and_foreign_directories_are_left_out(here):
    for directory in ("generated", ".venv", "node_modules", "src"):
        (here / directory).mkdir()
        (here / directory / "app.py").write_text(DANGLING)
    answer = json.loads(run(".", "--json", "--exclude", "generated").output)
    assert [each["path"] for each in answer["findings"]] == ["src/app.py"]


def test_rules_are_listed():
    output = run("--rules").output
    assert all(rule in output for rule in RULES)


def test_names_are_followed_through_packages_without_init(here):
    (here / "tools").mkdir()
    (here / "tools" / "spawning.py").write_text(
        "import asyncio\n\n\ndef start(work):\n    return asyncio.create_task(work)\n"
    )
    (here / "app.py").write_text("from tools.spawning import start\n\n\nasync def main(work):\n    start(work)\n")
    assert "app.py:5:5  dangling-task" in run(".").output


def test_imports_in_a_circle_end(here):
    (here / "a.py").write_text("from b import x\nx()\n")
    (here / "b.py").write_text("from a import x\nx()\n")
    (here / "c.py").write_text("def f():\n    return f()\n\n\nx = y\ny = x\nx().z()\nf()\n")
    assert run(".").exit_code == 0
