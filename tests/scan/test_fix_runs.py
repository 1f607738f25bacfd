"""`--fix` changes nothing that runs: every rewritten statement is executed, and the same calls are made as before."""

from __future__ import annotations

import ast
import importlib
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from standfast.scan import fix_plan
from standfast.scan.fix_plan import Change
from standfast.scan.scanner import scan
from tests.scan.shapes import CORPUS, SHAPES

CHANGES = {
    change.path.resolve().relative_to(CORPUS).as_posix(): change
    for shape in SHAPES
    for change in fix_plan.plan(scan([CORPUS / shape]).findings)
}


class Trace(NamedTuple):
    """What a file did: how often each of its functions was called, and which lines were run."""

    calls: Counter[str]
    lines: set[int]


@contextmanager
def traced(path: Path, trace: Trace) -> Iterator[None]:
    """Record what a file does, in every thread."""

    def note(frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename != str(path):
            return None
        if event == "call":
            trace.calls[frame.f_code.co_name] += 1
        elif event == "line":
            trace.lines.add(frame.f_lineno)
        return note

    before = sys.gettrace()
    sys.settrace(note)
    threading.settrace(note)
    try:
        yield
    finally:
        threading.settrace(before)
        sys.settrace(before)


def run(directory: Path, shape: str, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """Import a file, run its check, and wait for its threads."""
    trace = Trace(Counter(), set())
    name = shape.removesuffix(".py").replace("/", ".")
    with monkeypatch.context() as patched, traced(directory / shape, trace):
        patched.syspath_prepend(str(directory))
        forget(name)
        try:
            module = importlib.import_module(name)
            module.check()
            for executor in (each for each in vars(module).values() if isinstance(each, Executor)):
                executor.shutdown()
        finally:
            forget(name)
    return trace


def forget(name: str) -> None:
    """Have a module, and the package that it stands in, imported anew."""
    top = name.partition(".")[0]
    for each in [module for module in sys.modules if module.partition(".")[0] == top]:
        del sys.modules[each]


def functions(source: bytes) -> set[str]:
    return {each.name for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)}


def rewritten_lines(change: Change) -> list[int]:
    """Give the lines where something is handed to what the fix added."""
    added = functions(change.after) - functions(change.before)
    code = [each for each in ast.parse(change.after).body if getattr(each, "name", None) not in added]
    calls = [node for each in code for node in ast.walk(each) if isinstance(node, ast.Call)]
    return [each.lineno for each in calls if isinstance(each.func, ast.Name) and each.func.id in added]


@pytest.mark.parametrize("shape", sorted(CHANGES))
def test_what_is_rewritten_runs_and_makes_the_same_calls(shape, tmp_path, monkeypatch, caplog):
    change = CHANGES[shape]
    for path in sorted(CORPUS.joinpath(shape).parent.glob("*.py")) if "/" in shape else [CORPUS / shape]:
        copy = tmp_path / path.relative_to(CORPUS)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(path.read_bytes())
    before = run(CORPUS, shape, monkeypatch)
    (tmp_path / shape).write_bytes(change.after)
    caplog.clear()
    after = run(tmp_path, shape, monkeypatch)
    lines = rewritten_lines(change)
    assert len(lines) == len(change.fixed) == len(set(change.fixed))
    assert set(lines) <= after.lines, "its check does not reach what was rewritten"
    added = functions(change.after) - functions(change.before)
    assert {name: number for name, number in after.calls.items() if name not in added} == before.calls
    assert "xception in callback" not in caplog.text
    assert "exception calling callback" not in caplog.text
