"""Traces: what of the outside is understood, how they are switched on, and that they cost nothing while off."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from standfast import ConfigurationError, telemetry
from standfast.settings import Setting, load
from tests.worker.processes import environment

WHOLE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = f"00-{WHOLE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (GIVEN, GIVEN),
        (f"00-{WHOLE}-{SPAN}-00", f"00-{WHOLE}-{SPAN}-00"),
        (f"01-{WHOLE}-{SPAN}-01", GIVEN),  # a later version: what it adds is left out
        (f"01-{WHOLE}-{SPAN}-01-what-comes-later", GIVEN),
        (f"{GIVEN}-more", None),
        (f"ff-{WHOLE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{WHOLE}-{'0' * 16}-01", None),
        (f"00-{WHOLE.upper()}-{SPAN}-01", None),
        (f"00-{WHOLE[1:]}-{SPAN}-01", None),
        (f"00-{WHOLE}-{SPAN}", None),
        (f" {GIVEN}", None),
        (f"{GIVEN}\n", None),
        (f"01-{WHOLE}-{SPAN}-01-\r\nX: y", None),
        (f"00-{WHOLE}-{SPAN}-0\N{ARABIC-INDIC DIGIT ONE}", None),
        ("", None),
    ],
)
def test_only_what_fits_the_grammar_is_understood(given, read):
    assert telemetry.read_traceparent(given) == read


def test_a_span_is_written_as_it_is_read():
    found = SimpleNamespace(is_valid=True, trace_id=int(WHOLE, 16), span_id=int(SPAN, 16), trace_flags=1)
    assert telemetry.as_traceparent(found) == telemetry.read_traceparent(GIVEN) == GIVEN  # type: ignore[arg-type]
    assert telemetry.trace_id(GIVEN) == WHOLE
    assert telemetry.as_traceparent(SimpleNamespace(is_valid=False)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "written", "found"),
    [
        (None, None, Setting(value=False, source="default")),
        ("", "true", Setting(value=True, source="file")),
        ("1", "false", Setting(value=True, source="environment")),
        ("off", "true", Setting(value=False, source="environment")),
        ("TRUE", None, Setting(value=True, source="environment")),
    ],
)
def test_the_environment_says_whether_or_else_the_file(tmp_path, monkeypatch, said, written, found):
    monkeypatch.chdir(tmp_path)
    if written is not None:
        (tmp_path / "standfast.toml").write_text(f"[store]\notel = {written}\n")
    assert load(None, {} if said is None else {"STANDFAST_OTEL": said}).otel == found


def test_what_says_neither_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="STANDFAST_OTEL='console' is unknown; known are 1, true, on"):
        load(None, {"STANDFAST_OTEL": "console"})


def test_a_missing_extra_is_named_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert telemetry.tracing(on=False) is None
    with pytest.raises(ConfigurationError) as refused:
        telemetry.tracing(on=True)
    assert str(refused.value) == "STANDFAST_OTEL is on and needs an extra: pip install 'standfast[otel]'"


OFF = """
import asyncio, sys
from standfast.testing import drain, memory

async def main():
    async with memory() as sf:
        sf.handler("mail")(lambda job: None)
        await sf.enqueue("mail", 1)
        await drain(sf)
        assert sf.tracing is None

asyncio.run(main())
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""


def test_nothing_of_it_is_imported_while_off():
    surroundings = {name: value for name, value in environment().items() if name != "STANDFAST_OTEL"}
    subprocess.run([sys.executable, "-c", OFF], env=surroundings, check=True)
