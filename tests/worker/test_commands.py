"""Commands as workers run them: real programs, exit codes, process groups, and workers killed meanwhile."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from standfast import ConfigurationError, PayloadRejected, Standfast
from standfast.testing import drain, memory
from standfast.testing.kit import InMemory
from standfast.worker import worker as worker_module
from tests.waiting import effects_of, ended, failure_of, job_of, reached, seen
from tests.warm import Warm, run_warm
from tests.worker.processes import ROOT, environment

Make = Callable[..., InMemory]
SHELL = ("sh", "-c")


def table(name: str, values: dict[str, Any]) -> str:
    """Write a table of the settings file."""

    def shown(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {shown(each)}" for key, each in value.items()) + "}"
        return msgspec.json.encode(value).decode()

    return f"[{name}]\n" + "".join(f"{key} = {shown(value)}\n" for key, value in values.items())


def configured(script: str | None, *arguments: str, rules: dict[str, Any] | None = None, **settings: Any) -> None:
    """Have the queue `deploy` run a script of the shell, in the settings file of this directory."""
    command = {"argv": [*SHELL, script, "script", *arguments], **settings}
    queue = {"command": "deploy", "backoff": {"base": 1, "cap": 1}, **(rules or {})}
    Path("standfast.toml").write_text(table("commands.deploy", command) + table("queues.deploy", queue))


@pytest.fixture
async def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    """Give a store in memory whose queue `deploy` runs a script."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STANDFAST_CONFIG", raising=False)
    async with AsyncExitStack() as stack:

        def made(script: str | None, *arguments: str, **settings: Any) -> InMemory:
            configured(script, *arguments, **settings)
            sf = memory()
            stack.push_async_callback(sf.close)
            return sf

        yield made


def alive(pid: int) -> bool:
    """Tell whether a process runs, and is no mere zombie."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    return False


def over(pid: int) -> bool:
    """Tell whether a process is over."""
    return not alive(pid)


def pid_in(path: Path) -> int | None:
    """Give the number that a script has written, whole."""
    text = path.read_text() if path.exists() else ""
    return int(text) if text.endswith("\n") else None


# --- what comes of it


async def test_a_program_does_the_work_and_its_end_is_the_jobs(make):
    sf = make('echo "$1"; echo "to $STANDFAST_ATTEMPT" >&2; cat', "{payload.unit}", stdin="payload")
    unit = 'a "b" $(id); `id` \n *'
    receipt = await sf.enqueue("deploy", {"unit": unit})
    assert await drain(sf) == {"deploy": 1}
    job = await job_of(sf, receipt.id)
    assert (job.state, job.handler, job.attempts) == ("completed", "deploy", 1)
    assert job.result["exit_code"] == 0
    assert job.result["stdout"] == f"{unit}\n" + msgspec.json.encode({"unit": unit}).decode()
    assert job.result["stderr"] == "to 1\n"
    assert effects_of(job) == [{"name": "command", "verdict": "verified", "receipt": {"exit_code": 0}}]


async def test_the_environment_is_scrubbed(make, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_WORKER", "x")
    monkeypatch.setenv("WANTED", "w")
    sf = make("env", env=["WANTED", "MODE=fast"])
    receipt = await sf.enqueue("deploy", None, idempotency_key="key-1")
    await drain(sf)
    found = dict(line.split("=", 1) for line in (await job_of(sf, receipt.id)).result["stdout"].splitlines())
    assert {name: value for name, value in found.items() if name not in {"PWD", "SHLVL", "_", "PATH"}} == {
        "LANG": "C.UTF-8",
        "MODE": "fast",
        "WANTED": "w",
        "STANDFAST_ATTEMPT": "1",
        "STANDFAST_FENCE": "1",
        "STANDFAST_IDEMPOTENCY_KEY": "key-1",
        "STANDFAST_JOB_ID": receipt.id,
        "STANDFAST_QUEUE": "deploy",
    }


CODES = {"69": "snooze 5m", "64": "permanent", "70": "uncertain"}
ENDS = {
    0: ("completed", None, None, 1),
    75: ("retry_pending", "transient", "no", 1),
    64: ("dead", "permanent", "no", 1),
    70: ("retry_pending", "transient", "maybe", 1),
    3: ("retry_pending", "transient", "maybe", 1),
    69: ("scheduled", None, None, 0),
}


@pytest.mark.parametrize(("code", "expected"), ENDS.items())
async def test_an_exit_code_is_an_outcome(make, code, expected):
    view, cls, landed, spent = expected
    sf = make('echo "because of it" >&2; exit "$1"', "{payload}", exit_codes=CODES)
    receipt = await sf.enqueue("deploy", code)
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (job.view, job.attempts) == (view, spent)
    if cls is None:
        assert job.failure is None
        return
    failure = failure_of(job)
    assert (failure.cls, failure.landed, failure.error_kind) == (cls, landed, f"exit_{code}")
    assert failure.message.startswith(f"exit code {code}: because of it")
    assert bool(job.effects) == (landed == "maybe"), "nothing came of it, so nothing is left open"


async def test_without_a_postcondition_an_unknown_outcome_is_for_a_person(make, tmp_path):
    sf = make('echo x >> ran; exit "$(cat code)"')
    (tmp_path / "code").write_text("3")
    receipt = await sf.enqueue("deploy")
    await drain(sf)
    sf.clock.advance(2)
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (job.state, failure_of(job).reason_code, failure_of(job).landed) == ("held", "unknown_commit_state", "maybe")
    assert "with exit code 3, and its command has no postcondition" in failure_of(job).message
    assert (tmp_path / "ran").read_text() == "x\n", "it was not run again"
    (tmp_path / "code").write_text("0")
    await sf.retry(receipt.id)
    await drain(sf)
    assert (await job_of(sf, receipt.id)).state == "completed", "a person's word is enough"
    assert (tmp_path / "ran").read_text() == "x\nx\n"


async def test_told_to_replay_it_repeats_and_says_so(make, tmp_path):
    sf = make("echo x >> ran; test $(wc -l < ran) -ge 2", replay="replay")
    receipt = await sf.enqueue("deploy")
    await drain(sf)
    sf.clock.advance(2)
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (job.state, [line.possible_duplicate for line in job.history]) == ("completed", [True])
    assert (tmp_path / "ran").read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("program", "kind"),
    [("no-such-program", "ENOENT"), ("/etc/passwd", "EACCES"), ("/", "EACCES")],
)
async def test_a_program_that_is_not_there_did_nothing(make, program, kind):
    sf = make(None, argv=[program])
    receipt = await sf.enqueue("deploy")
    await drain(sf)
    job = await job_of(sf, receipt.id)
    failure = failure_of(job)
    assert (job.state, failure.landed, failure.reason_code, failure.error_kind) == (
        *("dead", "no", "handler_missing", kind),
    )
    assert job.effects == []
    assert program in failure.message


async def test_an_argument_that_no_program_can_have_says_so(make):
    sf = make("true", "{payload.text}")
    receipt = await sf.enqueue("deploy", {"text": "x" * 200_000})
    await drain(sf)
    job = await job_of(sf, receipt.id)
    failure = failure_of(job)
    assert (job.state, job.attempts, failure.landed) == ("dead", 1, "no")
    assert (failure.reason_code, failure.error_kind) == ("argument_too_long", "E2BIG")
    assert 'stdin = "payload"' in failure.advice
    assert job.effects == []


async def test_a_directory_that_is_not_there_did_nothing(make):
    sf = make("true", cwd="/no/such/directory")
    receipt = await sf.enqueue("deploy")
    await drain(sf)
    failure = failure_of(await job_of(sf, receipt.id))
    assert (failure.landed, failure.error_kind) == ("no", "ENOENT")
    assert "/no/such/directory" in failure.message


async def test_a_payload_that_does_not_fit_is_refused_or_dies_unrun(make, tmp_path):
    sf = make("touch ran", "{payload.unit}")
    with pytest.raises(PayloadRejected, match="begins with '-' and would be read as an option"):
        await sf.enqueue("deploy", {"unit": "--help"})
    with pytest.raises(PayloadRejected, match=r"has no \{payload\.unit\}"):
        await sf.enqueue("deploy", {})
    assert await drain(sf) == {}
    assert not (tmp_path / "ran").exists()


async def test_a_queue_that_names_no_command_of_the_file_is_refused(make):
    sf = make("true")
    with pytest.raises(ConfigurationError, match=r"no command is called 'deplyo'; write \[commands\.deplyo\]"):
        sf.queue("other", command="deplyo")
    with pytest.raises(ConfigurationError, match="takes one payload"):
        sf.queue("other", command="deploy", coalesce="collect")
    assert sf.queue("other", command="deploy").command == "deploy"
    assert sf.queue("other", command="deploy").command == "deploy"
    with pytest.raises(ConfigurationError, match="already has a handler"):
        sf.handler("other")(lambda job: job)


# --- the postcondition


async def test_done_is_what_the_postcondition_sees(make, tmp_path):
    sf = make("exit 0", postcondition=["test", "-e", "{payload.path}"])
    landed, absent = [
        (await sf.enqueue("deploy", {"path": str(tmp_path / name)})).id for name in ("standfast.toml", "missing")
    ]
    await drain(sf)
    assert (await job_of(sf, landed)).state == "completed"
    job = await job_of(sf, absent)
    failure = failure_of(job)
    assert (job.view, failure.cls, failure.landed, failure.reason_code) == (
        *("retry_pending", "transient", "maybe", "unverified"),
    )
    (tmp_path / "missing").touch()  # it was only late
    sf.clock.advance(2)
    await drain(sf)
    job = await job_of(sf, absent)
    assert (job.state, job.warning) == ("completed", "post_write_recovery")


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (["sh", "-c", "echo broken >&2; exit 2"], "its postcondition could not decide: exit code 2: broken"),
        (["sleep", "30"], "its postcondition took longer than 0.3 s"),
        (["no-such-check"], "its postcondition could not be started: No such file"),
    ],
)
async def test_a_postcondition_that_cannot_tell_is_no_success(make, tmp_path, check, why):
    sf = make("echo x >> ran; exit 0", postcondition=check, postcondition_timeout=0.3, grace=0)
    receipt = await sf.enqueue("deploy")
    await drain(sf)
    assert why in failure_of(await job_of(sf, receipt.id)).message
    sf.clock.advance(2)
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (job.state, failure_of(job).reason_code) == ("held", "unknown_commit_state")
    assert (tmp_path / "ran").read_text() == "x\n"


# --- its group, its output


async def test_what_it_leaves_in_its_group_is_killed(make, tmp_path):
    """Children that fork on and on, and outlive the program that started them."""
    bomb = "child() {{ (echo x >> forks; sleep 0.02; child) & (sleep 60) & }}; child; sleep 60 & echo $! > left; exit 0"
    sf = make(bomb)
    receipt = await sf.enqueue("deploy")
    await drain(sf)
    assert (await job_of(sf, receipt.id)).state == "completed"
    left = pid_in(tmp_path / "left")
    assert left is not None
    await seen(lambda: not alive(left))
    forks = (tmp_path / "forks").read_text() if (tmp_path / "forks").exists() else ""
    await asyncio.sleep(0.1)  # five times what one of them waits
    assert ((tmp_path / "forks").read_text() if forks else "") == forks


async def test_a_flood_of_output_is_cut_to_its_end(make):
    sf = make("head -c 50000000 /dev/zero | tr '\\0' x; echo; echo the end; echo token=hunter2222 >&2", output_cap=1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    receipt = await sf.enqueue("deploy")
    await drain(sf)
    result = (await job_of(sf, receipt.id)).result
    assert (result["stdout"], result["_truncated"]) == ("the end\n", True)
    assert result["stderr"] == "token=***\n"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000, "kilobytes"


async def test_what_leaves_the_group_and_holds_the_output_does_not_hold_the_job(make, tmp_path):
    sf = make("setsid sh -c 'echo $$ > left; exec sleep 60' & while ! test -s left; do sleep 0.01; done; echo done")
    receipt = await sf.enqueue("deploy")
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (job.state, job.result["stdout"]) == ("completed", "done\n")
    left = pid_in(tmp_path / "left")
    assert left is not None
    os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize("stubborn", [False, True])
async def test_at_its_timeout_the_whole_group_ends(make, tmp_path, stubborn):
    trap = "trap '' TERM; " if stubborn else ""
    sf = make(f"{trap}sleep 60 & echo $! > left; echo $$ > own; wait; sleep 60", timeout=1.5, grace=0.1)
    receipt = await sf.enqueue("deploy")
    await drain(sf)
    job = await job_of(sf, receipt.id)
    assert (job.view, failure_of(job).reason_code, failure_of(job).landed) == ("retry_pending", "timeout", "maybe")
    for name in ("left", "own"):
        pid = pid_in(tmp_path / name)
        assert pid is not None
        await seen(partial(over, pid))
    async with asyncio.timeout(10):  # the end of the group is noted when it is seen, which may be after the attempt's
        while "exit_code" not in job.effects[0]["receipt"]:
            job = await job_of(sf, receipt.id)
            await asyncio.sleep(0.01)
    assert job.effects[0]["receipt"]["exit_code"] == -9, "that it is over is known, wherever the next attempt runs"


async def test_cancelled_and_drained_its_group_ends(make, tmp_path, monkeypatch):
    monkeypatch.setattr(worker_module, "POLL_EVERY", 0.05)
    sf = make('echo $$ > "$1"; exec sleep 60', "{payload}", grace=1)
    cancelled, drained = [(await sf.enqueue("deploy", name)).id for name in ("cancelled", "drained")]
    async with sf.worker(grace=0):
        pids = [await seen(partial(pid_in, tmp_path / name)) for name in ("cancelled", "drained")]
        [launched] = (await job_of(sf, drained)).effects
        assert (launched["verdict"], launched["receipt"]["pid"]) == ("indeterminate", pids[1])
        await sf.cancel(cancelled)
        assert (await ended(sf, cancelled)).state == "cancelled"
        assert [alive(pid) for pid in pids] == [False, True]
    assert not alive(pids[1])
    job = await job_of(sf, drained)
    assert (job.view, failure_of(job).reason_code) == ("retry_pending", "drained")


# --- its worker dies


class Deployer(Warm):
    """A worker process that runs the queue `deploy` of the settings file."""

    def __init__(self, url: str) -> None:
        paths = f"{ROOT}:{environment()['PYTHONPATH']}"
        command = [sys.executable, str(Path(__file__).with_name("deploying.py")), url]
        super().__init__(command, env={**environment(), "PYTHONPATH": paths}, stderr=subprocess.DEVNULL)


@pytest.fixture
async def deploying(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """Give a way to configure a script and start workers for it; nothing is left behind."""
    monkeypatch.chdir(tmp_path)
    async with AsyncExitStack() as stack:

        async def store(script: str, **settings: Any) -> Standfast:
            configured(script, "{payload}", rules={"lease": 1, "backoff": "none"}, **settings)
            return await stack.enter_async_context(Standfast(url))

        def worker() -> Deployer:
            started = Deployer(url)
            stack.callback(started.wait)
            stack.callback(started.kill)
            return started

        yield store, worker
        end_all(tmp_path)


def end_all(directory: Path) -> None:
    """End what scripts have left."""
    for path in directory.glob("*.pid"):
        with suppress(OSError, ValueError):
            os.killpg(int(path.read_text()), signal.SIGKILL)


FOLLOWED = 'echo $$ >> "$1.pid"; while ! test -e "$1.go"; do sleep 0.02; done; echo x >> "$1.done"'


async def launched(sf: Standfast, name: str, tmp_path: Path, worker: Deployer) -> tuple[str, int]:
    """Enqueue a job, and kill its worker once its program runs."""
    job_id = str((await sf.enqueue("deploy", name)).id)
    pid: int = await seen(lambda: pid_in(tmp_path / f"{name}.pid"))
    worker.kill()
    await asyncio.to_thread(worker.wait, 10)
    assert alive(pid), "it outlives its worker"
    return job_id, pid


@pytest.mark.parametrize("checked", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_killed_its_program_is_found_again_and_followed_to_its_end(deploying, tmp_path, checked):
    store, worker = deploying
    sf = await store(FOLLOWED, postcondition=["test", "-e", "a.done"] if checked else [], output_cap=0)
    job_id, pid = await launched(sf, "a", tmp_path, worker())
    worker()

    async def followed() -> bool:
        effect = (await job_of(sf, job_id)).effects[-1]
        return bool(effect["receipt"] and effect["receipt"].get("adopted"))

    await seen(followed)
    (tmp_path / "a.go").touch()
    job = await ended(sf, job_id)
    assert (tmp_path / "a.pid").read_text() == f"{pid}\n", "it was launched once"
    assert (tmp_path / "a.done").read_text() == "x\n"
    lost = ("worker_lost", "maybe")
    if checked:
        assert (job.state, job.result) == ("completed", {"exit_code": None, "adopted": True})
        assert [(line.reason_code, line.landed) for line in job.history] == [lost]
    else:
        assert (job.state, failure_of(job).reason_code) == ("held", "unknown_commit_state")
        told = [(line.reason_code, line.landed) for line in job.history[:2]]
        assert told == [lost, ("unknown_commit_state", "maybe")]
        assert "its exit code is not known" in (job.history[1].message or "")


@pytest.mark.long  # what is judged there is in the table of looks, tests/core/test_command.py
async def test_killed_and_over_before_anybody_came_back(deploying, tmp_path):
    """Without a postcondition it is a person's to say."""
    store, worker = deploying
    sf = await store(FOLLOWED, output_cap=0)
    job_id, pid = await launched(sf, "b", tmp_path, worker())
    (tmp_path / "b.go").touch()
    await seen(lambda: not alive(pid))
    worker()
    job = await reached(sf, job_id, "held")
    assert failure_of(job).reason_code == "unknown_commit_state"
    assert "its end was not seen" in failure_of(job).message
    assert (tmp_path / "b.done").read_text() == "x\n"


async def test_killed_before_it_was_let_go_its_program_never_runs(make, tmp_path):
    """Between its launch and the note of it the worker dies: the gate closes, and nothing has begun."""
    script = (
        "import asyncio, os\n"
        "from standfast.wings.commands.process import Process\n"
        "async def main():\n"
        "    process = Process(['touch', 'ran'], {'PATH': '/usr/bin:/bin'})\n"
        "    print(process.identity.pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    del make
    command = [sys.executable, "-c", script]
    done = await asyncio.to_thread(lambda: run_warm(command, capture_output=True, env=environment(), cwd=tmp_path))
    assert done.returncode == -signal.SIGKILL
    await seen(lambda: not alive(int(done.stdout)))
    assert not (tmp_path / "ran").exists()
