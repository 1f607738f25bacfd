"""`--fix`: the diff comes first, comments stay, and every file of the corpus imports and works as before."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from standfast.errors import ConfigurationError
from standfast.scan import fix_plan
from standfast.scan.codemod import WRAPPED_BY
from standfast.scan.scan_rules import SWALLOWED_ERROR
from standfast.scan.scanner import scan
from tests.scan.shapes import CORPUS, SHAPES, expected, files

FIXABLE = {*WRAPPED_BY, SWALLOWED_ERROR.id}
NOT_INSTALLED = {"celery_early.py", "celery_signature.py", "celery_late"}
LEFT = {
    "wait_errors_unread.py",
    "wait_results_counted.py",
    "pool_dropped.py",
    "map_dropped.py",
    "dangling_called_back.py",
}
"""Left to a person."""


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fix a copy of the whole corpus."""
    copy = tmp_path_factory.mktemp("fixed") / "corpus"
    shutil.copytree(CORPUS, copy)
    for change in fix_plan.plan(scan([copy]).findings):
        fix_plan.write(change)
    return copy


@pytest.fixture(autouse=True)
def modules() -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if "fixed_shape" in name:
            del sys.modules[name]


def load(path: Path) -> ModuleType:
    name = f"fixed_shape_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.endswith(".py") and shape not in NOT_INSTALLED])
@pytest.mark.parametrize("which", ["before", "after"])
def test_every_file_imports_and_its_check_passes(fixed, shape, which):
    module = load((CORPUS if which == "before" else fixed) / shape)
    if hasattr(module, "check"):
        module.check()


def test_packages_import_after_the_fix(fixed, monkeypatch):
    monkeypatch.syspath_prepend(str(fixed))
    for name in ("wrapper_package", "wrapper_package.service", "jsonl_queue_package.reader"):
        importlib.import_module(name)
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape not in LEFT])
def test_what_can_be_fixed_is_not_found_again(fixed, shape):
    assert [each for each in scan([fixed / shape]).findings if each.rule in FIXABLE] == []


@pytest.mark.parametrize("shape", SHAPES)
def test_files_without_anything_to_fix_are_not_touched(fixed, shape):
    if not {rule for _, _, rule in expected(CORPUS / shape)} & FIXABLE:
        for path in files(CORPUS / shape):
            assert (fixed / path.relative_to(CORPUS)).read_bytes() == path.read_bytes()


def test_a_task_that_is_kept_is_still_at_risk(fixed):
    """The rewrite does not pretend: the work still dies with the process."""
    found = scan([fixed / "dangling_create_task.py"]).findings
    assert [each.rule for each in found] == ["task-never-awaited"]


def test_only_lines_with_findings_change_and_comments_stay(tmp_path):
    source = (
        '"""Mail."""\r\nimport asyncio   # the loop\r\n\r\n\r\nasync def send(a,b): pass  # odd  spacing\r\n\r\n\r\n'
        "async def main():\r\n    # why\r\n    asyncio.create_task( send(1 , 2) )  # fire\r\n"
    )
    file = tmp_path / "mail.py"
    file.write_bytes(source.encode())
    (change,) = fix_plan.plan(scan([file]).findings)
    lines = change.after.decode().split("\r\n")
    assert "    _keep_task(asyncio.create_task( send(1 , 2) ))  # fire" in lines
    assert [each for each in source.split("\r\n") if each not in lines] == [
        "    asyncio.create_task( send(1 , 2) )  # fire"
    ]
    assert "\n" not in change.after.decode().replace("\r\n", "")


def test_a_second_fix_adds_no_second_helper(tmp_path):
    file = tmp_path / "mail.py"
    file.write_text((CORPUS / "dangling_create_task.py").read_text())
    for addition in ("", "\n\nasync def again():\n    asyncio.create_task(send(2))\n"):
        file.write_text(file.read_text() + addition)
        for change in fix_plan.plan(scan([file]).findings):
            fix_plan.write(change)
    helpers = [node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)]
    assert helpers.count("_keep_task") == 1
    assert file.read_text().count("_keep_task(asyncio.create_task(") == 2


def test_a_second_fix_takes_the_names_that_the_first_one_chose(tmp_path):
    file = tmp_path / "mail.py"
    file.write_text((CORPUS / "helper_names_taken.py").read_text())
    for addition in ("", "\n\nasync def again(pool: ThreadPoolExecutor):\n    pool.submit(send, 2)\n"):
        file.write_text(file.read_text() + addition)
        for change in fix_plan.plan(scan([file]).findings):
            fix_plan.write(change)
    helpers = [node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)]
    assert [name for name in helpers if name.startswith("_log_error_of")] == ["_log_error_of_2", "_log_error_of"]
    assert file.read_text().count("_log_error_of_2(pool.submit(") == 2


def test_the_mode_of_a_file_stays(tmp_path):
    file = tmp_path / "mail.py"
    file.write_text((CORPUS / "dangling_create_task.py").read_text())
    file.chmod(0o750)
    for change in fix_plan.plan(scan([file]).findings):
        fix_plan.write(change)
    assert file.stat().st_mode & 0o777 == 0o750
    assert [each.name for each in tmp_path.iterdir()] == ["mail.py"]


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path):
    file = tmp_path / "mail.py"
    file.write_text((CORPUS / "dangling_create_task.py").read_text())
    (change,) = fix_plan.plan(scan([file]).findings)
    file.write_text("somebody = 'was faster'\n")
    with pytest.raises(ConfigurationError, match="changed meanwhile"):
        fix_plan.write(change)
    assert file.read_text() == "somebody = 'was faster'\n"


def test_an_error_that_was_swallowed_is_logged_after_the_fix(fixed, caplog):
    load(fixed / "swallowed_pass.py").check()
    assert "not tried again" in caplog.text


def test_errors_that_were_thrown_away_are_logged_after_the_fix(fixed, caplog):
    load(fixed / "gather_errors_unread.py").check()
    assert caplog.text.count("ValueError") >= 2


def test_the_error_of_a_dropped_future_is_logged_after_the_fix(fixed, caplog):
    module = load(fixed / "submit_dropped.py")
    module.main()
    module.pool.shutdown()
    assert "a background call failed" in caplog.text
