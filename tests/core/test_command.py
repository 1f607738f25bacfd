"""Commands: what a payload may put into an argv, what a program finds in its environment, what its exit codes mean."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from standfast.errors import ConfigurationError
from standfast.failure import Verdict
from standfast.job import Claim, Details
from standfast.rules import QueueRules
from standfast.wings.commands import orphans
from standfast.wings.commands.orphans import Identity, end_leftovers, identify, process_state
from standfast.wings.commands.program import filled, read
from standfast.wings.commands.verbs import CommandEffect
from standfast.wings.effects.handler_job import Job
from standfast.wings.effects.templates import CannotTell
from standfast.wings.effects.words import EffectToVerify
from standfast.wings.http.sender import Sender

HOSTILE = "a b; rm -rf / $(id) `id`\n'\""
ARGV = ["systemd-run", "--wait", "{payload.unit}"]


@pytest.mark.parametrize(
    ("template", "payload", "expected"),
    [
        (["run", "{payload.unit}"], {"unit": HOSTILE}, ["run", HOSTILE]),
        (["run", "{payload.unit}"], {"unit": ""}, ["run", ""]),
        (["run", "--unit={payload.unit}"], {"unit": "-x"}, ["run", "--unit=-x"]),
        (["run", "a{payload.unit}z"], {"unit": "-x"}, ["run", "a-xz"]),
        (["run", "--", "{payload.unit}"], {"unit": "-x"}, ["run", "--", "-x"]),
        (["run", "--", "{payload.a}", "{payload.b}"], {"a": "-x", "b": "--y"}, ["run", "--", "-x", "--y"]),
        (["run", "{payload}"], "text", ["run", "text"]),
        (["run", "{payload.a.b.1}"], {"a": {"b": [1, 2]}}, ["run", "2"]),
        (["run", "{payload.n}", "{payload.t}"], {"n": 1.5, "t": True}, ["run", "1.5", "true"]),
        (["run", "{job.id}"], None, ["run", "the-id"]),
        (["run", "{{payload.unit}}"], {"unit": "x"}, ["run", "{payload.unit}"]),
        (["run", "{payload.unit}"], {"unit": "{payload.other}"}, ["run", "{payload.other}"]),
        (["run", "{payload.unit}"], {"unit": "−x"}, ["run", "−x"]),  # noqa: RUF001 - no hyphen, and no option
    ],
)
def test_a_value_is_one_argument_or_a_part_of_one(template, payload, expected):
    assert filled(template, payload, "the-id") == expected


@pytest.mark.parametrize(
    ("template", "payload", "why"),
    [
        (["run", "{payload.unit}"], {"unit": "-x"}, "begins with '-'"),
        (["run", "{payload.unit}"], {"unit": "--help"}, "begins with '-'"),
        (["run", "{payload.unit}"], {"unit": "-"}, "begins with '-'"),
        (["run", "{payload.n}"], {"n": -1}, "begins with '-'"),
        (["run", "{payload.a}{payload.b}"], {"a": "", "b": "-x"}, "begins with '-'"),
        (["run", "--", "inner", "{payload.unit}"], {"unit": "-x"}, "begins with '-'"),
        (["run", "{payload.a}", "--", "{payload.b}"], {"a": "-x", "b": "-y"}, "payload.a"),
        (["run", "{payload.a}", "{payload.b}"], {"a": "--", "b": "-x"}, "payload.a"),
        (["run", "--", "{payload.a}", "c", "{payload.b}"], {"a": "x", "b": "-y"}, "payload.b"),
        (["run", "{payload.unit}"], {"other": 1}, "has no {payload.unit}"),
        (["run", "{payload.unit}"], None, "has no"),
        (["run", "{payload.unit.0}"], {"unit": "text"}, "has no"),
        (["run", "{payload.unit.9}"], {"unit": [1]}, "has no"),
        (["run", "{payload.unit}"], {"unit": None}, "neither text nor a number"),
        (["run", "{payload.unit}"], {"unit": ["a", "b"]}, "neither text nor a number"),
        (["run", "{payload.unit}"], {"unit": {"a": 1}}, "neither text nor a number"),
        (["run", "{payload.unit}"], {"unit": "a\0b"}, "NUL"),
    ],
)
def test_what_would_be_an_option_or_no_argument_is_refused(template, payload, why):
    with pytest.raises(LookupError, match=why):
        filled(template, payload, "the-id")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "argv"),
        ({"argv": []}, "must name a program"),
        ({"argv": [""]}, "must name a program"),
        ({"argv": "rm -rf"}, "argv"),
        ({"argv": ["{payload.program}"]}, "must name its program itself"),
        ({"argv": ["/opt/{payload.program}"]}, "must name its program itself"),
        ({"argv": ["run", "{env.HOME}"]}, "known are {payload.name}"),
        ({"argv": ["run", "{payload.a"]}, "known are {payload.name}"),
        ({"argv": ["run", "{}"]}, "known are {payload.name}"),
        ({"argv": ["run", "a\0"]}, "NUL"),
        ({"argv": ["sh", "-c", "echo {payload.x}"]}, "would be run as code"),
        ({"argv": ["sudo", "/bin/bash", "-ec", "{payload.x}"]}, "would be run as code"),
        ({"argv": ["python3.11", "-I", "-c", "print('{payload.x}')"]}, "would be run as code"),
        ({"argv": ["perl", "-e", "print {payload.x}"]}, "would be run as code"),
        ({"argv": ARGV, "postcondition": ["{payload.check}"]}, "postcondition must name its program itself"),
        ({"argv": ARGV, "shell": True}, "unknown setting 'shell'"),
        ({"argv": ARGV, "env": ["STANDFAST_FENCE=1"]}, "standfast's own"),
        ({"argv": ARGV, "env": ["A B"]}, "env cannot name"),
        ({"argv": ARGV, "stdin": "file"}, "stdin"),
        ({"argv": ARGV, "exit_codes": {"256": "completed"}}, "exit_codes cannot name '256'"),
        ({"argv": ARGV, "exit_codes": {"-9": "completed"}}, "exit_codes cannot name '-9'"),
        ({"argv": ARGV, "exit_codes": {"07": "completed"}}, "exit_codes cannot name '07'"),
        ({"argv": ARGV, "exit_codes": {"1": "retry"}}, "unknown meaning of an exit code 'retry'"),
        ({"argv": ARGV, "exit_codes": {"1": "transient 5m"}}, "unknown meaning"),
        ({"argv": ARGV, "exit_codes": {"1": "snooze soon"}}, "not a duration"),
        ({"argv": ARGV, "output_cap": -1}, "output_cap"),
        ({"argv": ARGV, "grace": 30}, "grace must be from 0 to 4"),
        ({"argv": ARGV, "timeout": 0}, "timeout must be more than 0"),
        ({"argv": ARGV, "postcondition_timeout": "0s"}, "postcondition_timeout"),
        ({"argv": ARGV, "replay": "sometimes"}, "replay"),
    ],
)
def test_what_could_not_work_is_refused_by_name(given, why):
    with pytest.raises(ConfigurationError, match=r"\[commands\.deploy\]: ") as refused:
        read("deploy", given)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("codes", "code", "expected"),
    [
        ({}, 0, ("completed", 60.0)),
        ({}, 75, ("transient", 60.0)),
        ({}, 1, ("uncertain", 60.0)),
        ({}, 255, ("uncertain", 60.0)),
        ({}, -9, ("uncertain", 60.0)),
        ({"1": "permanent"}, 1, ("permanent", 60.0)),
        ({"1": "permanent"}, 2, ("uncertain", 60.0)),
        ({"other": "transient"}, 2, ("transient", 60.0)),
        ({"other": "transient"}, -9, ("transient", 60.0)),
        ({"0": "uncertain"}, 0, ("uncertain", 60.0)),
        ({"69": "snooze"}, 69, ("snooze", 60.0)),
        ({"69": "snooze 5m"}, 69, ("snooze", 300.0)),
        ({"75": "uncertain"}, 75, ("uncertain", 60.0)),
    ],
)
def test_what_an_exit_code_means(codes, code, expected):
    assert read("deploy", {"argv": ARGV, "exit_codes": codes}).ending(code) == expected


def test_the_environment_holds_what_is_asked_for_and_nothing_else():
    command = read("deploy", {"argv": ARGV, "env": ["HOME", "MISSING", "MODE=fast=er", "PATH"]})
    worker = {"HOME": "/root", "PATH": "/opt/bin", "AWS_SECRET_ACCESS_KEY": "x", "LD_PRELOAD": "y"}
    found = command.environment({"STANDFAST_JOB_ID": "7"}, worker)
    assert found == {
        "HOME": "/root", "MODE": "fast=er", "PATH": "/opt/bin", "LANG": "C.UTF-8", "STANDFAST_JOB_ID": "7",
    }  # fmt: skip
    assert read("deploy", {"argv": ARGV}).environment({}, worker)["PATH"].startswith("/usr/local/sbin:")


def test_a_process_is_told_from_another_with_its_number():
    own = identify(os.getpid())
    assert (own.pid, own.host, own.exit_code) == (os.getpid(), socket.gethostname(), None)
    cases = {
        "runs": own,
        "over": replace(own, started="1"),
        "elsewhere": replace(own, boot="another", host="another"),
    }
    assert {name: process_state(known) for name, known in cases.items()} == {name: name for name in cases}
    assert process_state(replace(own, boot="another")) == "over", "the same host was started anew"
    assert process_state(replace(own, space="pid:[1]")) == "elsewhere", "a container counts for itself"
    assert process_state(replace(own, boot="unknown")) == "elsewhere"
    assert process_state(replace(own, started="")) == "elsewhere"
    assert process_state(replace(own, exit_code=3)) == "over", "its worker saw it end"


def test_what_a_program_left_is_told_by_its_group_and_its_environment():
    def left(name: str) -> tuple[Identity, int]:
        """Start a program that leaves another behind, and is over; give which it was, and the other's number."""
        command = ["sh", "-c", "sleep 60 > /dev/null & echo $!; read go"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, env={"JOB": name}, start_new_session=True, **pipes) as program:  # type: ignore[call-overload]
            known, pid = identify(program.pid), int(program.stdout.readline())
            program.stdin.close()
        return known, pid

    (one, first), (other, second) = left("one"), left("other")
    try:
        end_leftovers(one, "JOB=other")
        end_leftovers(replace(other, boot="another"), "JOB=other")
        end_leftovers(one, "JOB=on")
        assert [is_over(pid) for pid in (first, second)] == [False, False]
        end_leftovers(one, "JOB=one")
        deadline = time.monotonic() + 10
        while not is_over(first) and time.monotonic() < deadline:
            time.sleep(0.005)
        assert [is_over(pid) for pid in (first, second)] == [True, False]
    finally:
        for known in (one, other):
            with suppress(ProcessLookupError):
                os.killpg(known.pid, signal.SIGKILL)


def is_over(pid: int) -> bool:
    return identify(pid).started == ""


def test_a_process_that_may_not_be_looked_at_is_not_over(tmp_path, monkeypatch):
    known = identify(os.getpid())
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to(known.space)
    monkeypatch.setattr(orphans, "PROC", tmp_path)
    assert process_state(known) == "elsewhere"
    assert process_state(replace(known, pid=2**22 + 1)) == "over"


def test_a_process_that_nobody_has_buried_is_over():
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        known = identify(child.pid)
        assert process_state(known) == "runs"
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert process_state(known) == "over"
    assert process_state(known) == "over"


PAYLOAD = '{"unit": "a"}'
CLAIM = Claim(1, 1, "id", "deploy", "deploy", "w", PAYLOAD, 2, 5, 0, 90, 900, "manual", 0, 0, None, None, Details())
OWN = identify(os.getpid())
OVER = replace(OWN, started="1")
ELSEWHERE = replace(OWN, boot="another", host="far")
SEEN = replace(ELSEWHERE, exit_code=3)
NEVER: Identity | None = None
VERIFIED, ABSENT = Verdict.VERIFIED, Verdict.ABSENT
"""What a look says by what is known of the process and what the postcondition answers (None: there is none)."""
LOOKS: list[tuple[Identity | None, int | None, dict[str, Any], Verdict | str]] = [
    (NEVER, None, {}, ABSENT),
    (NEVER, 0, {}, VERIFIED),
    (NEVER, 1, {}, ABSENT),
    (NEVER, 2, {}, "its postcondition could not decide: exit code 2"),
    (OWN, None, {}, ABSENT),
    (OWN, 0, {}, ABSENT),
    (OVER, None, {}, "its end was not seen, and its command has no postcondition"),
    (OVER, None, {"asked": True}, ABSENT),
    (OVER, None, {"replay": "replay"}, ABSENT),
    (OVER, 0, {}, VERIFIED),
    (OVER, 1, {}, ABSENT),
    (OVER, 2, {"asked": True}, "its postcondition could not decide: exit code 2"),
    (ELSEWHERE, None, {}, "on far, where it may still run"),
    (ELSEWHERE, 0, {}, VERIFIED),
    (ELSEWHERE, 1, {}, "on far, where it may still run"),
    (ELSEWHERE, 1, {"asked": True}, ABSENT),
    (ELSEWHERE, 1, {"replay": "replay"}, ABSENT),
    (SEEN, None, {}, "with exit code 3, and its command has no postcondition"),
    (SEEN, 1, {}, ABSENT),
]


@pytest.mark.parametrize(("known", "answer", "told", "expected"), LOOKS)
async def test_what_a_look_says(known, answer, told, expected):
    check = [] if answer is None else ["sh", "-c", f"exit {answer}"]
    landing = CommandEffect(
        read("deploy", {"argv": ARGV, "postcondition": check, "replay": told.get("replay", "manual")})
    )
    receipt = None if known is None else to_builtins(known)
    trace = EffectToVerify("command", "key", begun=True, receipt=receipt, asked=told.get("asked", False))
    looking = landing.look(Job(CLAIM, QueueRules()), trace, Sender())
    if isinstance(expected, Verdict):
        assert await looking == expected
    else:
        with pytest.raises(CannotTell, match=expected):
            await looking
