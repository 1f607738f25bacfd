"""The files of `examples/deployment` and the page about them: every command line in them is run."""

from __future__ import annotations

import getpass
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx2
import msgspec
import pytest
from ruamel.yaml import YAML

from tests.doors.processes import COMMAND, PATIENCE, WorkerProcess, eventually, standfast, surroundings

ROOT = Path(__file__).parents[2]
FILES = ROOT / "examples/deployment"
PAGE = ROOT / "docs/deployment.md"
UNITS = sorted(each.name for each in FILES.iterdir() if each.suffix in {".service", ".timer"})


@pytest.fixture
def shop(here: Path) -> Path:
    shutil.copy(FILES / "app.py", here)
    return here


def exec_start(unit: str) -> list[str]:
    """Give the arguments of a unit's command, with files of the test's own."""
    [line] = re.findall(r"^ExecStart=(.+)$", (FILES / unit).read_text(), re.MULTILINE)
    program, *arguments = shlex.split(line)
    assert program == "/srv/shop/bin/standfast"
    return [each.replace("/run/shop/", "") for each in arguments]


def image(instruction: str) -> list[str]:
    """Give the arguments of an instruction of the image."""
    [line] = re.findall(rf"^{instruction}.*?(\[.+\])$", (FILES / "Dockerfile").read_text(), re.MULTILINE)
    return [each.replace("/tmp/", "") for each in json.loads(line)]  # noqa: S108 - of a container


@contextmanager
def serving(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, env=surroundings({}))
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def answers(url: str) -> bool:
    try:
        return httpx2.get(url).status_code == 200
    except httpx2.TransportError:
        return False


@pytest.mark.parametrize("name", sorted(each.name for each in FILES.iterdir() if each.name != "app.py"))
def test_the_page_shows_the_files_as_they_are(name):
    if name != "__pycache__":
        assert (FILES / name).read_text().rstrip() in PAGE.read_text()


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here to ask")
def test_systemd_finds_no_fault_with_a_unit(unit, tmp_path):
    for each in UNITS:
        text = (FILES / each).read_text().replace("/srv/shop/bin/standfast", sys.executable)
        (tmp_path / each).write_text(text.replace("User=shop", f"User={getpass.getuser()}"))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / unit)],  # noqa: S607 - whichever is here
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    about = [line for line in checked.stderr.splitlines() if unit.partition(".")[0] in line]
    assert about == []


def test_the_service_of_workers_starts_is_alive_and_drains(shop):
    with WorkerProcess(*exec_start("shop-worker.service")[1:]) as worker:
        worker.says("is ready for: count_stock")
        eventually((shop / "alive").exists)
        assert standfast("alive", "alive").returncode == 0
        probe = re.findall(r"^test -n .*$", PAGE.read_text(), re.MULTILINE)[0].replace("/run/shop/", "")
        assert subprocess.run(["/bin/sh", "-c", probe], check=False).returncode == 0
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0
    assert subprocess.run(["/bin/sh", "-c", probe], check=False, stderr=subprocess.DEVNULL).returncode == 1
    schedules = json.loads(standfast("schedule", "list", "--json").stdout)
    assert "stock" in msgspec.json.encode(schedules).decode()


@pytest.mark.usefixtures("shop")
def test_the_service_of_the_timer_runs_what_is_due_and_ends():
    assert standfast("enqueue", "count_stock").returncode == 0
    done = standfast(*exec_start("shop-once.service"))
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line)["message"] for line in done.stderr.decode().splitlines()]
    told = [line.split(" took ")[0].split(" ")[0] if " took " in line else line for line in lines]
    ours = [line for line in told if line in {"the pool is open", "job", "the pool is closed"}]
    assert ours == ["the pool is open", "job", "the pool is closed"]


@pytest.mark.usefixtures("shop")
def test_the_service_of_the_server_starts_and_ends():
    arguments = [each if each != "8080" else "0" for each in exec_start("shop-server.service")]
    with serving(*arguments) as server:
        assert server.stderr is not None
        while "serving at" not in (line := server.stderr.readline()):
            assert line, "it ended"
        [address] = re.findall(r"serving at (http://[\w.:]+)", line)
        for probe in ("healthz", "readyz"):
            eventually(partial(answers, f"{address}/{probe}"))
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0


@pytest.mark.usefixtures("shop")
def test_the_container_runs_a_worker_that_its_probe_finds_alive():
    assert image("ENTRYPOINT") == ["standfast"]
    program, *probe = image("HEALTHCHECK")
    assert program == "standfast"
    assert standfast(*probe).returncode == 1
    with WorkerProcess(*image("CMD ")[1:]) as worker:
        worker.says("is ready")
        assert standfast(*probe).returncode == 0
        worker.signal(signal.SIGTERM)
        assert worker.ends() == 0


def test_the_deployment_has_the_commands_of_the_image_and_time_to_drain():
    described = YAML(typ="safe").load(FILES / "kubernetes.yaml")
    pod = described["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert [each.replace("/tmp/", "") for each in container["args"]] == image("CMD ")  # noqa: S108 - of a container
    for probe in ("startupProbe", "livenessProbe"):
        command = container[probe]["exec"]["command"]
        assert [each.replace("/tmp/", "") for each in command] == image("HEALTHCHECK")  # noqa: S108
    assert pod["terminationGracePeriodSeconds"] > 25
